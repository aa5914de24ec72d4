# ruff: noqa: E501 tables are easier read unbroken
"""Templates of passwords, keys and connection strings, each in the text it stands in. ``⏎``: a line break."""

from __future__ import annotations

TEXTS = """
password setting :: DB_PASS¦WORD={password12}
password setting :: pass¦word = {password14}
password setting :: "pass¦word": "{password12}",
password setting :: REDIS_PASS={password16}
password setting :: pass¦wd: '{password12}'
password setting :: define('DB_PASS¦WORD', '{password14}');
password setting :: $mail->Pass¦word = '{password12}';
password setting :: <add key="SmtpPass¦word" value="{password12}"/>
password setting :: <pass¦word>{password14}</pass¦word>
password setting :: spring.datasource.pass¦word={password13}
password setting :: credentials {⏎  username 'ada'⏎  pass¦word '{password12}'⏎}
password in prose :: The pass¦word is {password14}, change it after the move.
password in prose :: We log in as deploy and the pass¦word is '{password12}'.
secret setting :: client_sec¦ret: {h40}
secret setting :: SEC¦RET_KEY = '{a50}'
secret setting :: webhook_sec¦ret={h64}
secret setting :: "clientSec¦ret": "{w24}"
key setting :: api_¦key = "{a32}"
key setting :: API¦KEY={h32}
key setting :: x = {"api¦Key": "{a40}"}
key setting :: access_k¦ey := "{a24}"
key setting :: encryption_k¦ey: {h64}
key setting :: license_k¦ey={a30}
token setting :: auth_tok¦en={a32}
token setting :: access_tok¦en: "{w48}"
token setting :: personalAccessTok¦en = "{s52}"
token setting :: refresh_tok¦en => '{w60}'
AWS secret key :: aws_sec¦ret_access_key = {b40}
AWS secret key :: AWS_SEC¦RET_ACCESS_KEY="{b40}"
AWS session token :: AWS_SESSION_TOK¦EN={b200}
private key :: -----BEGIN ¦RSA PRIVATE KEY-----⏎{b64}⏎{b64}⏎-----END RSA PRIVATE KEY-----
private key :: -----BEGIN ¦OPENSSH PRIVATE KEY-----⏎{b64}⏎{b64}⏎-----END OPENSSH PRIVATE KEY-----
private key :: "private_key": "-----BEGIN ¦PRIVATE KEY-----\\n{b64}\\n{b64}\\n-----END PRIVATE KEY-----\\n"
private key :: -----BEGIN ¦PGP PRIVATE KEY BLOCK-----⏎⏎{b64}⏎-----END PGP PRIVATE KEY BLOCK-----
WireGuard key :: [Interface]⏎Private¦Key = {b43}=⏎Address = 10.0.0.2/32
bearer header :: Authoriza¦tion: Bearer {a40}
bearer header :: curl -H "Authoriza¦tion: Bearer {w43}" https://api.internal/v1/me
bearer header :: headers = {"Authoriza¦tion": "Bearer {h40}"}
basic header :: Authoriza¦tion: Basic {pair12}
token header :: Authoriza¦tion: Token {h40}
key header :: X-API-¦Key: {a32}
key header :: curl -H 'apik¦ey: {uuid}' https://db.internal/rest/v1/rows
key in a URL :: https://api.internal/v1/rows?api_¦key={a32}&page=2
key in a URL :: https://api.internal/v1?access_tok¦en={w40}
password in a command :: curl -u ada:{a14} ¦https://nexus.internal/repository
password in a command :: sshpass -p {a12} ¦ssh deploy@build-7
password in a command :: mysql -h db7 -u app -p{a12} ¦shop
PostgreSQL URL :: postgresql://app:¦{a16}@db.internal:5432/shop
PostgreSQL URL :: DATABASE_URL=postgres://shop:¦{a12}@10.0.4.7/shop?sslmode=require
MySQL URL :: mysql+pymysql://root:¦{a14}@127.0.0.1:3306/crm
MongoDB URL :: mongodb+srv://admin:¦{a18}@cluster0.k2x9f.mongodb.net/app
Redis URL :: redis://:¦{a24}@cache-1:6379/0
AMQP URL :: amqps://worker:¦{a20}@mq.internal:5671/jobs
FTP URL :: ftp://backup:¦{a10}@files.internal/dumps
SMTP URL :: smtp://notify:¦{a16}@mail.internal:587
proxy URL :: HTTPS_PROXY=http://ada:¦{a12}@proxy.internal:3128
Git URL :: git clone https://ci:¦{a20}@git.internal/team/app.git
JDBC string :: jdbc:postgresql://db7:5432/shop?user=app&pass¦word={a14}
JDBC string :: jdbc:sqlserver://sql1:1433;databaseName=crm;user=sa;pass¦word={a14};
Oracle string :: jdbc:oracle:thin:scott/¦{a10}@//ora1:1521/crm
ODBC string :: Driver={ODBC Driver 18};Server=sql1;Database=crm;Uid=sa;P¦wd={a12};
ADO.NET string :: Server=sql1,1433;Database=crm;User Id=app;Pass¦word={a14};Encrypt=True
Npgsql string :: Host=db7;Port=5432;Username=app;Pass¦word={a14};Database=shop
libpq string :: host=db7 port=5432 dbname=shop user=app pass¦word={a14}
Azure storage string :: DefaultEndpointsProtocol=https;AccountName=shop;Account¦Key={b86}==;EndpointSuffix=core.windows.net
Azure bus string :: Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccess¦Key={b43}=
Azure signature :: https://shop.blob.core.windows.net/in/a.csv?sv=2022-11-02&se=2026-01-01&s¦ig={a42}%3D
Slack webhook :: https://hooks.sl¦ack.com/services/T{u8}/B{u8}/{a24}
Discord webhook :: https://discord.com/api/web¦hooks/{d18}/{w68}
Teams webhook :: https://shop.webhook.off¦ice.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}
netrc password :: machine git.internal login ada pass¦word {a20}
npm setting :: //registry.internal/:_auth¦Token={uuid}
Kubernetes secret :: apiVersion: v1⏎kind: Sec¦ret⏎metadata:⏎  name: db⏎data:⏎  url: {readable18}⏎
credentials in code :: new NetworkCred¦ential("ada@shop.internal", "{a14}")
Twilio key :: twilio.rest.Client("A¦C{h32}", "S¦K{h32}")
kubeadm token :: kube¦adm join 10.0.0.7:6443 --token {l6}.{l16}
"""
