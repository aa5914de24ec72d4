# ruff: noqa: E501 tables are easier read unbroken
"""Texts that must pass: ordinary memories, talk about credentials, placeholders, hashes, ids and code."""

from __future__ import annotations

# Memories as agents and people write them.
PLAIN = """
We decided to keep SQLite as the default and to support PostgreSQL behind the same interface.
The nightly job failed because the disk was full; we added an alert at 85 percent.
Ada prefers small pull requests with one topic each and a test that fails first.
Users reset their password with a link that is valid for one hour and can be used once.
Passwords are hashed with argon2id, 64 MiB of memory and three passes.
The password field was not labelled, so screen readers skipped it.
Never store plain text passwords, tokens or keys in a memory.
A password must have at least twelve characters; we check it against a list of leaked ones.
Password: 12-character minimum, one digit, no maximum.
The login page asked twice for the password when the session had expired.
If the token has expired the client asks for a new one and tries once more.
The access token lives for fifteen minutes, the refresh token for thirty days.
We rotate the signing key every ninety days and keep the old one for verification.
The API key is read from the environment at start and never written to the log.
Secrets live in the vault; the deployment mounts them as files under /run/secrets.
The secret to a quick test suite is to create the database once.
The key insight was that the cache was keyed by the wrong column.
The primary key became a bigint, the foreign key was dropped and made anew.
Keys of the mapping are lower case; values keep their case.
Tokens are counted with the model's own tokenizer; a thousand tokens are about 750 words.
max_tokens: 128000, temperature: 0.2, top_p: 0.95
The tokenizer splits CamelCase and snake_case, so search finds parts of names.
Token: OAuth2 or OIDC, both are supported by the gateway.
next page token: empty on the last page
CSRF tokens are checked on every form; the cookie is SameSite=Lax and HttpOnly.
The bearer of this letter is Ada Byron; please let her in.
Bearer authentication is described in RFC 6750, basic authentication in RFC 7617.
Authorization: Basic authentication is switched off in production.
Authorization header was missing in calls from the worker, so they got 401.
The build takes 4 minutes 12 seconds on two cores and 2 minutes 40 on four.
Fixed the time zone bug: moments were stored as local time and shown as UTC.
Moved from requests to httpx because of HTTP/2 and timeouts by default.
The migration 0042_add_owner locks the table for about three seconds.
Release 2.14.0 drops Python 3.9 and adds support for 3.13.
Deploys go out on Tuesdays and Thursdays before noon.
Karl owns billing, Miriam owns search, the on-call rota changes on Mondays.
The customer wants exports as CSV with semicolons and a byte order mark.
We chose wordllama because its weights come inside the wheel.
The flaky test waited for a fixed time; now it polls for the row.
An index on (project, updated_at) took the list from 900 ms to 11 ms.
Remember: the staging database is a copy of Sunday's backup without names.
Retry with exponential backoff, at most five times, with jitter.
The worker keeps one connection open; the pool has a size of eight.
Search by meaning finds synonyms, search by words finds names; we blend both.
Feature flags are kept in LaunchDarkly; the default is off.
Errors go to Sentry; noise from bots is filtered by the proxy.
Metrics go to Datadog under the prefix shop.api, logs to Elastic.
GitHub Actions builds the image, GitLab mirrors the repository every hour.
The Slack channel for incidents is #ops-fire; write there first.
Stripe sends webhooks twice now and then; we store the event's id and skip repeats.
Terraform state is in S3 with a lock in DynamoDB.
The Twilio number for alerts ends in 4471.
Heroku was replaced by two small machines at Hetzner.
Discord's limit is fifty messages a second for each bot.
Auth0 gives us the tenant, we keep the roles.
Okta groups become roles by name; unknown groups are ignored.
The Algolia index is rebuilt at night and swapped in one step.
Cloudflare caches images for a week; purge them by tag.
OpenAI's batch endpoint halves the cost but may take a day.
Hugging Face models are pinned to a revision, never to main.
npm audit found two moderate issues, both in development packages.
PyPI rejects wheels above 100 MB unless you ask for more.
Mapbox tiles are replaced by self-hosted ones on the map page.
SendGrid suppresses addresses that bounced; look there first.
The AWS account for tests is closed at the end of the month.
Azure functions start cold in about two seconds, which is too slow for the hook.
The Google sign-in button must keep its colours and its margins.
Vault is sealed after a restart; two of three people must unseal it.
Jira tickets are closed by commits that name them.
Confluence is read-only since March; the handbook lives in the repository.
The Mailchimp list and our table drift apart; the sync runs every morning.
Postman collections are exported to the repository under docs/api.
Snyk and Dependabot both open pull requests; we keep only Dependabot.
Netlify previews are deleted after a week.
Shopify's API gives 40 calls a minute for each shop.
Zendesk macros are written in English and translated by hand.
The secret santa list is drawn on the first of December.
The private key of a good retrospective is honesty, said Tom.
Pass the word on: the office is closed on Friday.
The passport office needs a photo of 35 by 45 millimetres.
Bus pass renewal: bring the old card and twelve euros.
He passed the exam with 87 of 100 points.
The passenger list has 142 names, the crew list 11.
Compass directions are given in degrees from north.
Keyboard shortcuts: g then i goes to the inbox, ? shows help.
The monkey patch in tests/conftest.py replaces the clock.
Turkey, Kenya and Chile were added to the list of countries.
Key results for the quarter: fewer pages, faster search, one more customer.
Die Anmeldung verlangt ein Passwort mit zwölf Zeichen.
Das Passwort wird nie protokolliert, der Schlüssel liegt im Tresor.
La contraseña se guarda con argon2 y nunca en texto plano.
Le mot de passe doit contenir douze caractères.
パスワードは十二文字以上にしてください。
密码至少十二个字符，不要写进日志。
Пароль хранится в виде хеша, ключ лежит в хранилище.
password = <your-password>
password: <password>
password = "changeme"
PASSWORD=changeme123!
password=********
password: [redacted]
password = "your-password-here"
password = 'mypassword123'
password: ${DB_PASSWORD}
password: {{ db_password }}
password = %(db_password)s
DB_PASSWORD=$DB_PASSWORD
password = os.environ["DB_PASSWORD"]
password = getpass.getpass("Password: ")
password=settings.DATABASE_PASSWORD
password: str = Field(min_length=12, max_length=128)
password = forms.CharField(widget=forms.PasswordInput)
password = request.POST.get("password", "")
const password = process.env.DB_PASSWORD || "not-set";
if password != confirm_password: raise ValidationError("passwords differ")
user.set_password(new_password); user.save(update_fields=["password"])
hashed_password = generate_password_hash(password, method="scrypt")
create_user(username=username, password=hashed_password)
api_key = None, secret = null, token = undefined
api_key = xxxxxxxxxxxxxxxx
API_KEY=your_api_key_here
API_KEY=<insert key>
api_key: "REPLACE_ME"
api_key = os.getenv("OPENAI_API_KEY")
apiKey: process.env.NEXT_PUBLIC_API_KEY
api_key=config.api_key
API_KEY=OPENAI_API_KEY_2
export GITHUB_TOKEN=$(gh auth token)
export VAULT_TOKEN="$(cat ~/.vault-token)"
token = secrets.token_urlsafe(32)
token = make_token(user, now)
token: ${{ secrets.GITHUB_TOKEN }}
token = self.tokens.pop(0)
token_file = /run/secrets/hub/token2.txt
secret_name = projects/shop/secrets/db-password/versions/3
secret = ./certs/server-key2.pem
client_secret: <client secret from the console>
client_secret=...
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer YOUR_API_KEY
Authorization: Token **********
curl -H "Authorization: Bearer $API_KEY" https://api.internal/v1/me
curl -H "X-API-Key: ${API_KEY}" https://api.internal/v1/me
curl -u "$USER:$PASSWORD" https://nexus.internal/
curl -u username:password https://nexus.internal/
curl --user "{{ user }}:{{ password }}" https://nexus.internal/
docker login -u ada --password-stdin < token.txt
mysql -h db7 -u app -p shop < dump.sql
psql postgresql://app@db.internal/shop
sshpass -p "$PASSWORD" ssh deploy@build-7
postgres://user:password@localhost/db
postgres://user:${PASSWORD}@localhost/db
postgres://USER:<pass>@host/db
mongodb://<user>:<password>@cluster0.example.net/test
redis://localhost:6379/0
mysql://root@127.0.0.1:3306/crm
amqp://guest:guest@localhost:5672/
https://user:pass@example.com/path
jdbc:postgresql://localhost:5432/shop?user=app&password=${DB_PASSWORD}
Server=sql1;Database=crm;User Id=app;Password=<password>;
Server=sql1;Database=crm;Integrated Security=True;
http://localhost:8000/@vite/client
see https://docs.internal:8443/guide/a@b for the picture
git clone git@github.com:shop/app.git
ssh://git@git.internal:2222/team/app.git
Slack tokens begin with xoxb- or xoxp-, GitHub's with ghp_.
AKIA is the prefix of an access key id, ASIA of a temporary one.
We look for -----BEGIN RSA PRIVATE KEY----- in every upload.
A JWT has three parts with dots between: header.payload.signature
The header of a JWT often begins with eyJ, for that is an opening brace in base64.
sk-learn is imported as sklearn; sk-estimator-html-doc-container-toggleable is a class of its pages.
hf_hub_download caches under ~/.cache/huggingface/hub
the class .re_button_primary_large_round was renamed
pk_constraint_name_of_the_orders_table is too long for Oracle
"""

# Where chance, or a hash, writes what might be taken for a credential.
HARD = """
Fixed in commit {h40}, released with 1.4.2.
commit {h40}
Merge: {h7} {h7}
Reverted {h8} because it broke the import of old files.
git checkout {h40} -- docs/
https://github.com/shop/app/commit/{h40}
GitHub: the fix is in {h40}
github commit = {h40}
GITHUB_SHA={h40}
SENTRY_RELEASE={h40}
gitlab revision: {h40}
sha256:{h64}
image: registry.internal/app@sha256:{h64}
The checksum of the download is {h64}.
md5 = {h32}
ETag: "{h32}"
etag: W/"{h40}"
"integrity": "sha512-{bytes64}"
h1:{bytes32}
content_hash = "{h64}"
password_hash = "$argon2id$v=19$m=65536,t=3,p=4${b22}${b43}"
password: $2b$12${a53}
pbkdf2_sha256$600000${a22}${b43}=
cache_key = "user:{h32}"
cache key: {h40}
primary_key: {uuid}
id: {uuid}
"id": "{uuid}",
request_id={uuid}
trace_id: {h32}
span_id={h16}
session {uuid} ended after 14 calls
X-Request-ID: {uuid}
correlation-id: {uuid}
token: {uuid}
next page token: {h32}
cursor: {b64}
next_cursor = "{w40}"
The run {h24} took 41 seconds.
ObjectId("{h24}")
build-{d12}-{h8}
container {h12} exited with code 137
docker run --rm -it {h12} sh
pod shop-api-{l10}-{l5} was evicted
arn:aws:kms:eu-west-1:{d12}:key/{uuid}
arn:aws:iam::{d12}:role/deploy
s3://backups-{d12}/2025/03/dump-{h8}.sql.gz
i-{h17} was replaced by i-{h17}
vpc-{h17}, subnet-{h17}, sg-{h17}
snap-{h17}
projects/shop-{d6}/locations/europe-west1/jobs/{uuid}
/subscriptions/{uuid}/resourceGroups/shop/providers/Microsoft.Web/sites/api
InstrumentationKey={uuid};EndpointSuffix=ai.internal
tenant_id = "{uuid}"
client_id: {uuid}
clientId = "{h32}"
AWS_ACCOUNT_ID={d12}
account id {d12}
"project_id": "shop-{d6}"
datadog org id: {d6}
slack channel C{u10}, user U{u10}
Slack thread https://shop.slack.com/archives/C{u10}/p{d16}
Discord message {d18} in channel {d18}
zoom meeting {d11}
Jira SHOP-{d4}: the export misses the last line
sentry issue {d10}, event {h32}
https://sentry.io/organizations/shop/issues/{d10}/events/{h32}/
sentry event id: {h32}
https://{h32}@o{d6}.ingest.sentry.io/{d7}
figma.com/file/{a22}/Dashboard
https://docs.google.com/document/d/{w44}/edit
https://drive.google.com/file/d/{w33}/view
https://www.youtube.com/watch?v={w11}
https://www.notion.so/shop/Roadmap-{h32}
https://trello.com/c/{a8}/114-export
https://linear.app/shop/issue/SHO-{d3}/export
https://gist.github.com/ada/{h32}
https://cdn.internal/assets/index-{h8}.js
/static/app.{h20}.css
main.{h8}.chunk.js 142.3 kB
data:image/png;base64,{bytes600}
![dot](data:image/gif;base64,{bytes120})
<img src="data:image/svg+xml;base64,{bytes300}">
src: url(data:font/woff2;base64,{bytes400})
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b200} ada@laptop
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} ada@laptop
SHA256:{b43} ada@laptop (ED25519)
public_key = "{b43}="
PublicKey = {b43}=
pk_live publishable keys may be shown, secret keys may not
fingerprint {h2}:{h2}:{h2}:{h2}:{h2}:{h2}:{h2}:{h2}
version 1.2.3.4, 192.168.0.{d2}:8080, 12:34:56
IBAN DE{d20}
ISBN 978-3-{d6}-{d2}-{d1}
order {d10} was paid twice, refund {d10}
invoice INV-2025-{d6}
tracking number 1Z{u16}
the licence plate is B-MW {d4}
serial number C02{u9}
MAC address {h2}:{h2}:{h2}:{h2}:{h2}:{h2}
fe80::{h4}:{h4}:{h4}:{h4}
0x{h40}
ethereum address 0x{h40}
0x{h16} in ?? () from libc.so.6
tokens = {d10}, max_tokens: 128000, token = {d8}
prompt_tokens={d4} completion_tokens={d3} total_tokens={d4}
key={d6} value={d6}
partition key p#{d6}, sort key s#2025-03-{d2}
"sort_key": "2025-03-01T{d2}:00:00Z#{d6}"
x-amz-request-id: {u16}
x-amz-id-2: {bytes48}
cf-ray: {h16}-FRA
nonce-{b22}==
script-src 'nonce-{w22}'
boundary=----WebKitFormBoundary{a16}
seed={d10} lr=3e-4 batch={d3}
model checkpoint step-{d6}-loss-0.{d4}.ckpt
tests/fixtures/test_{h8}/expected_output.json
node_modules/.pnpm/@babel+core@7.{d2}.{d1}/node_modules/@babel/core
File "/srv/app/.venv/lib/python3.11/site-packages/django/db/models/query.py", line {d3}
AttributeError at 0x7f{h10}: 'NoneType' object has no attribute 'token'
django.core.exceptions.ImproperlyConfigured: SECRET_KEY must not be empty
SECRET_KEY setting must have at least 50 characters ({d2} given)
key error: 'user_{d4}'
the fingerprint of the deploy key is SHA256:{b43}
Signed-off-by: Ada Byron <ada@shop.internal>
Change-Id: I{h40}
Message-ID: <{a24}@mail.internal>
uuid {uuid} is the demo project's
the dashboards are grafana/d/{w9}/shop
workspace {h24}, board {h24}
postman collection {d8}-{uuid}
heroku release v{d3} of app shop-{d4}
twilio message SM{h32} was delivered
twilio account AC{h32}
stripe customer cus_{a14} paid invoice in_{a24}
stripe event evt_{a24}
plaid item {a37}
openai request req_{h32}
openai file file-{a24}, thread thread_{a24}
model claude-3-5-sonnet-2024{d4} answered in {d3} ms
Mailchimp campaign {h10} went to {d4} people
wandb run {l8} of project shop/ranker
vercel deployment dpl_{a24} is live
cloudflare zone id: {h32}
algolia application id: {u10}
github run {d11}, job {d11}
circleci workflow {uuid}
gitlab pipeline {d9} failed in stage test
supabase project ref: {z20}
render service srv-{l20}
fly machine {h14} in region ams
snapshot of the dashboard: grafana snapshot {a32}
the jenkins build {d4} used commit {h40}
docker layer {h64}
datadog trace {d19} took 41 ms
"""

LONG = (
    "Traceback (most recent call last):\n"
    '  File "/srv/app/hub/store.py", line {d3}, in remember\n'
    "    draft = MemoryDraft(**values)\n"
    "pydantic.ValidationError: 1 validation error for MemoryDraft\n"
    "password\n  Field required [type=missing, input_value={'user': 'ada'}, input_type=dict]\n",
    "-----BEGIN CERTIFICATE-----\n{b64}\n{b64}\n{b64}\n-----END CERTIFICATE-----\n",
    "diff --git a/hub/auth.py b/hub/auth.py\nindex {h7}..{h7} 100644\n--- a/hub/auth.py\n+++ b/hub/auth.py\n"
    "@@ -12,7 +12,7 @@\n-    token = request.headers['X-Token']\n+    token = request.headers.get('X-Token', '')\n",
    "## Decision\nTokens are stored as SHA-256, shown once, and named.\n\n## Why\nA leaked backup then opens "
    "nothing.\n\n## Consequences\n- a lost token is replaced, never shown again\n- the prefix helps to find it",
    "version: '3'\nservices:\n  db:\n    image: postgres:16\n    environment:\n      POSTGRES_PASSWORD: ${DB_PASSWORD}\n"
    "      POSTGRES_USER: app\n    secrets:\n      - db_password\n",
    "-r--r--r-- 1 ada ada 1204 Mar 3 id_ed25519.pub\n-rw------- 1 ada ada 411 Mar 3 known_hosts\n",
    "| key | value |\n|---|---|\n| id | {uuid} |\n| hash | {h64} |\n| token limit | 128000 |\n",
    "On branch main\nChanges to be committed:\n  modified: hub/secrets.py\n  new file: tests/test_password_reset.py\n",
    "def test_password_is_never_logged(caplog):\n    login('ada', password=generate_password())\n"
    "    assert 'password' not in caplog.text\n",
    "kind: ConfigMap\nmetadata:\n  name: shop\ndata:\n  LOG_LEVEL: debug\n  CACHE_URL: redis://cache:6379/0\n",
    "pip install --require-hashes -r requirements.txt\ndjango==5.2.1 \\\n    --hash=sha256:{h64} \\\n    --hash=sha256:{h64}\n",
    '{"lockfileVersion": 3, "packages": {"node_modules/ms": {"version": "2.1.3", '
    '"integrity": "sha512-{bytes64}"}}}',
    "resource \"random_password\" \"db\" {\n  length  = 32\n  special = true\n}\n\noutput \"db\" {\n"
    "  value     = random_password.db.result\n  sensitive = true\n}\n",
    "Session 2025-03-14\n- moved the login form\n- password reset mails are sent by the worker\n- open: rate limit",
    "kind: Secret\nmetadata:\n  name: db\nstringData:\n  password: <set by the operator>\n",
    "Q: Where is the API key?\nA: In the vault under shop/prod/api-key; ask Karl for access.\n",
    "2025-03-14 10:22:31,{d3} INFO auth: user=ada token_id={d4} ip=10.0.0.{d2} path=/api/v1/memories 200 {d2}ms\n",
    "1. Open the console\n2. Create a token with read rights\n3. Copy it into SHOP_TOKEN\n4. Restart the worker\n",
)  # fmt: skip
