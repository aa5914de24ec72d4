"""Templates of tokens that say who issued them, and of values that only their names tell."""

from __future__ import annotations

TOKENS = """
1Password secret key :: A¦3-{u6}-{u11}-{u5}-{u5}-{u5}
1Password service token :: op¦s_eyJ{b260}
Adafruit IO key :: ai¦o_{a28}
Adobe client secret :: p8¦e-{h32}
age secret key :: AGE-SEC¦RET-KEY-1{u58}
Airtable token :: pa¦t{a14}.{h64}
Alibaba access key :: LT¦AI{a20}
Anthropic key :: sk-a¦nt-api03-{w93}AA
Anthropic admin key :: sk-a¦nt-admin01-{w93}AA
Apify token :: apif¦y_api_{a36}
Artifactory key :: AK¦Cp{a69}
Artifactory reference token :: cm¦Vmd{a59}
Atlassian token :: ATA¦TT3{w186}
Bitbucket app password :: ATB¦B{a32}
AWS access key id :: AK¦IA{c16}
AWS temporary key id :: AS¦IA{c16}
AWS AppSync key :: da¦2-{l26}
AWS Bedrock key :: AB¦SK{b120}
AWS marketplace token :: amz¦n.mws.{uuid}
Azure client secret :: {a3}8Q¦~{a34}
Azure DevOps token :: {a76}AZ¦DO{a4}
Brevo key :: xkey¦sib-{h64}-{a16}
Buildkite token :: bk¦ua_{h40}
Cerebras key :: cs¦k-{l48}
CircleCI token :: CCI¦PAT_{a22}_{h40}
ClickHouse key :: 4b¦1d{a38}
ClickUp token :: p¦k_{d8}_{u32}
Clojars token :: CLO¦JARS_{l60}
Cloudflare CA key :: v1¦.0-{h24}-{h146}
CockroachDB key :: CC¦DB1_{a22}_{a40}
Contentful token :: CF¦PAT-{w43}
crates.io token :: ci¦o{a32}
Databricks token :: da¦pi{h32}
Deno token :: dd¦p_{a36}
Dependency-Track key :: od¦t_{a32}
DigitalOcean token :: do¦p_v1_{h64}
DigitalOcean refresh token :: do¦r_v1_{h64}
Discord bot token :: {bot}.{w6}.{w38}
Docker token :: dck¦r_pat_{w27}
Doppler token :: dp¦.pt.{a43}
Dropbox token :: sl¦.{w138}
Duffel token :: duf¦fel_live_{w43}
Dynatrace token :: dt¦0c01.{u24}.{u64}
EasyPost key :: EZ¦AK{a54}
Facebook token :: EA¦AC{a120}
Figma token :: fi¦gd_{w40}
Firecrawl key :: f¦c-{h32}
Flutterwave key :: FLW¦SECK_TEST-{h32}-X
Fly.io token :: fo¦1_{w43}
Frame.io token :: fi¦o-u-{w64}
GitHub token :: gh¦p_{a36}
GitHub app token :: gh¦s_{a36}
GitHub fine-grained token :: github¦_pat_{a22}_{a59}
GitLab token :: gl¦pat-{w20}
GitLab runner token :: gl¦rt-{w20}
GitLab trigger token :: gl¦ptt-{h40}
Google API key :: AI¦za{w35}
Google client secret :: GO¦CSPX-{w28}
Google access token :: ya¦29.{w120}
Grafana service token :: gl¦sa_{a32}_{h8}
Grafana cloud token :: gl¦c_{b60}
Groq key :: gs¦k_{a52}
Harness token :: pa¦t.{w22}.{a24}.{a20}
Heroku key :: HR¦KU-AA{w58}
HubSpot token :: pat-¦na1-{uuid}
Hugging Face token :: h¦f_{z34}
Infracost key :: ic¦o-{a32}
Intra42 secret :: s-s¦4t2ud-{h64}
Jina key :: ji¦na_{a60}
JSON Web Token :: {jwt}
LangSmith key :: ls¦v2_pt_{h32}_{h10}
Linear key :: li¦n_api_{a40}
Mailchimp key :: {h32}-u¦s14
MailerSend token :: ml¦sn.{h64}
Mailgun key :: ke¦y-{h32}
Mapbox token :: s¦k.eyJ{a80}.{w22}
MaxMind key :: {a6}_{a29}_m¦mk
memoryhub token :: m¦h_{w43}
Neon key :: na¦pi_{l64}
Netlify token :: nf¦p_{a36}
New Relic key :: NR¦AK-{u27}
Notion token :: nt¦n_{d11}{a35}
npm token :: np¦m_{a36}
NuGet key :: oy¦2{l43}
NVIDIA key :: nv¦api-{w64}
Octopus Deploy key :: AP¦I-{u26}
OneSignal key :: os¦_v2_app_{s103}
OpenAI key :: s¦k-{a20}T3Blbk¦FJ{a20}
OpenAI project key :: s¦k-proj-{w58}T3Blbk¦FJ{w58}
OpenRouter key :: s¦k-or-v1-{h64}
OpenShift token :: sha2¦56~{w43}
Perplexity key :: pp¦lx-{a48}
Pinecone key :: pc¦sk_{a6}_{a63}
Plaid token :: access¦-production-{uuid}
PlanetScale token :: psc¦ale_tkn_{a43}
Postman key :: PM¦AK-{h24}-{h34}
PostHog key :: ph¦x_{a43}
Prefect key :: pn¦u_{a36}
Pulumi token :: pu¦l-{h40}
PyPI token :: py¦pi-AgEIcHlwaS5vcmc{w90}
RapidAPI key :: {h10}ms¦h{h15}p1{h6}js¦n{h12}
ReadMe key :: rd¦me_{l70}
Replicate token :: r¦8_{a37}
Resend key :: r¦e_{a8}_{a24}
RubyGems key :: ruby¦gems_{h48}
Salesforce token :: 00D{a12}!¦{a96}
SendGrid key :: S¦G.{w22}.{w43}
Sentry token :: sn¦tryu_{h64}
Shippo token :: ship¦po_live_{h40}
Shopify token :: sh¦pat_{h32}
Shopify secret :: sh¦pss_{h32}
Slack bot token :: xo¦xb-{d12}-{d12}-{a24}
Slack app token :: xa¦pp-1-A{u9}-{d13}-{h64}
SonarQube token :: sq¦u_{h40}
Sourcegraph token :: sg¦p_{h16}_{h40}
Square token :: sq¦0atp-{w22}
StackHawk key :: ha¦wk.{w20}.{w20}
Stripe key :: sk_l¦ive_{a24}
Stripe test key :: sk_t¦est_{a24}
Stripe restricted key :: rk_l¦ive_{a40}
Stripe webhook secret :: wh¦sec_{a32}
Supabase key :: sb¦p_{h40}
Tailscale key :: ts¦key-auth-{a12}-{a32}
Tavily key :: tv¦ly-{a32}
Telegram bot token :: {d10}:A¦A{w33}
Terraform token :: {a14}.atlas¦v1.{w64}
Trello token :: AT¦TA{h72}
Twitter bearer token :: AAAAAAAAAA¦AAAAAAAAAAAA{a85}
Typeform token :: tf¦p_{w59}
Vault service token :: hv¦s.{w95}
Vault batch token :: hv¦b.{w140}
Voyage key :: p¦a-{w43}
WakaTime key :: wa¦ka_{uuid}
xAI key :: xa¦i-{a80}
Yandex key :: AQ¦VN{w36}
"""

SERVICES = """
adobe :: {h32}
algolia :: {l32}
amplitude :: {h32}
asana :: {l32}
auth0 :: {w64}
bitbucket :: {l32}
cloudflare :: {w40}
codecov :: {l32}
cohere :: {a40}
coinbase :: {l64}
contentful :: {w43}
datadog :: {h40}
deepgram :: {h40}
discord :: {h64}
etherscan :: {u34}
facebook :: {h32}
fastly :: {w32}
finnhub :: {l20}
heroku :: {uuid}
hubspot :: {uuid}
jenkins :: 11{h32}
launchdarkly :: {w40}
linode :: {h64}
looker :: {l24}
mattermost :: {l26}
messagebird :: {l25}
mistral :: {a32}
mixpanel :: {h32}
newrelic :: {h40}
okta :: 00{w40}
openweather :: {h32}
pagerduty :: {w20}
plaid :: {h30}
postmark :: {uuid}
rollbar :: {h32}
segment :: {a32}
sendbird :: {h40}
sentry :: {h64}
snyk :: {uuid}
spotify :: {h32}
squarespace :: {uuid}
travis :: {a22}
trello :: {h32}
twilio :: {h32}
twitch :: {l30}
twitter :: {a50}
vultr :: {u36}
wandb :: {h40}
zendesk :: {a40}
zoom :: {a32}
"""
