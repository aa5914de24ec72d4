"""Services whose credentials carry no mark: how they are written in names, and what they are called.

Values without a mark of their own, known by what stands before them: a service's name and a sign.

Half of the well-known services give out plain hexadecimal or base 62. The text is read from its values
backwards: a run of signs that chance seems to have written is found first, then what it is called. So the
time grows with the text's length, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memoryhub.security.secrets.budget import Budget
from memoryhub.security.secrets.values import HEX, UUID, is_random, is_reference

# ruff: noqa: E501 a pattern is easier read unbroken


_NAMES = """
abbysale abuseipdb accuweather adafruit adobe adzuna agora airbrake airship airtable aiven algolia alibaba aliyun
alienvault amadeus amplitude ansible anthropic apacta apideck apiflash apify apollo appcues appsync artifactory
artsy asana assemblyai atlassian auth0 authress autodesk aviationstack aws axiom azure bamboo bannerbear baremetrics
beamer bintray bitbucket bitfinex bitly bitmex bitrise bittrex bitwarden blazemeter blynk box braintree branch brave
brevo browserstack browserless bugsnag buildkite buttercms calendly calendarific cartesia censys cerebras chargebee
chartmogul checkout circleci cisco clarifai clearbit clerk clickhouse clickup clicksend cloudant cloudflare cloudinary
cloudsight codacy codeclimate codecov cohere coinbase coinmarketcap confluence confluent contentful convertkit
couchbase courier coveralls crowdin cryptocompare currencylayer customerio datadog databricks datagov deepgram deepl
deepseek delighted digitalocean discord discourse disqus docusign doppler drift drone droneci dropbox duo dynatrace
ebay elastic elasticsearch elevenlabs etherscan etsy eventbrite exoscale facebook fastly fb figma finicity finnhub
firebase fireworks fivetran flickr flightaware flutterwave flyio foursquare frameio freshbooks freshdesk freshservice
front fullstory gcp geocodio ghost giphy gitea github gitlab gitter gocardless google grafana greenhouse groq gumroad
harness harvest helpscout heroku honeycomb hootsuite hubspot huggingface hunter ibm imgur infracost infura influxdb
instagram intercom intrinio ionic ipinfo ipstack iterable jenkins jfrog jira jotform jumpcloud kagi keen klaviyo kraken
kubernetes kucoin lastfm launchdarkly lark lemonsqueezy line linear linkedin linode lob loggly logdna logzio looker
mailboxlayer mailchimp mailgun mailjet mailersend mandrill mapbox maps marketstack mattermost maxmind mediastack meraki
messagebird metabase microsoft midtrans mistral mixpanel monday mongodb moonshot moosend mux nasa neon netlify newrelic
newsapi nexmo nightfall noaa notion ngrok nuget nvidia nytimes octopus okta ollama onelogin onesignal openai opencage
openrouter openshift openweather openweathermap opsgenie optimizely ovh packagist pagerduty papertrail particle
pastebin paypal paystack perplexity persona pinata pinecone pingdom pinterest pipedrive plaid planetscale plivo
polygon postageapp postmark posthog prismic privateai pubnub pulumi pusher quickbooks qualys rapidapi rapid7 razorpay
readme recaptcha reddit redis render replicate riot rollbar rubygems salesforce sauce saucelabs scaleway scraperapi
securitytrails segment sendbird sendgrid sendinblue sentry shodan shopify shortcut signalr slack smartsheet snowflake
snyk softlayer sonar sonarcloud sonarqube soundcloud sourcegraph spotify splunk square squarespace sslmate stability
stackexchange statuspage storyblok strava stripe stytch sumo sumologic supabase surveymonkey svix tableau tatum teamcity
telegram telnyx terraform thingsboard ticketmaster tiingo todoist together tomtom travis travisci trello truenas twilio
twitch twitter typeform unsplash upcloud uptimerobot upstash vault vercel vimeo virustotal vonage vultr wakatime wandb
weatherbit weatherstack webex webflow workday workato woocommerce wordpress xai xero yandex yelp youtube zapier zendesk
zenrows zeplin zerobounce zoho zoom zulip cosmos cosmosdb servicebus eventhub iothub ocp apim dockerhub docker
digicert godaddy namecheap okex binance bybit bitstamp alpaca alphavantage quandl polymarket weightsandbiases mws
""".split()
# Names of two words, or whose capitals are not where a name's usually are.
_WRITTEN = {
    "abuseipdb": "AbuseIPDB", "aws": "AWS", "auth0": "Auth0", "fb": "Facebook", "gcp": "Google Cloud",
    "github": "GitHub", "gitlab": "GitLab", "ibm": "IBM", "newrelic": "New Relic", "okta": "Okta", "openai": "OpenAI",
    "sumo": "Sumo Logic", "sumologic": "Sumo Logic", "wandb": "Weights & Biases", "nytimes": "New York Times",
    "launchdarkly": "LaunchDarkly", "digitalocean": "DigitalOcean", "sendgrid": "SendGrid", "linkedin": "LinkedIn",
    "circleci": "CircleCI", "travisci": "Travis CI", "droneci": "Drone CI", "rapidapi": "RapidAPI", "jfrog": "JFrog",
    "mws": "Amazon MWS", "ocp": "Azure API Management", "apim": "Azure API Management", "nasa": "NASA", "xai": "xAI",
}  # fmt: skip
_PAIRS = {
    "privateai": "Private AI", "newyork": "New York Times", "frameio": "Frame.io", "flyio": "Fly.io",
    "customerio": "Customer.io", "coinmarket": "CoinMarketCap", "alphavantage": "Alpha Vantage",
}  # fmt: skip

SERVICES: dict[str, str] = {name: _WRITTEN.get(name, name.capitalize()) for name in _NAMES} | _PAIRS


# ruff: noqa: E501 tables are easier read unbroken


_LOOK_BACK = 90  # characters before a value in which its service is named
_RUN = re.compile(r"(?<![\w+/.~-])[\w+/.~:-]{14,300}={0,3}(?![\w+/~-])", re.ASCII)
_LEAD = re.compile(r"[A-Za-z_]\w{0,40}:{1,2}(?=\S{14})")  # a name within the run: `key:value`
# Issuers that no table knows yet follow the fashion: `acme_live_…`, `acme_secret_…`, `sk-acme-…`.
_FASHION = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9]{1,11}[_-]){0,2}"
    r"(?:sk|key|secret|token|pat|api|live|prod|auth|oauth|access|priv(?:ate)?)[_-](?:[a-z0-9]{1,6}[_-])?"
    r"(?P<body>[A-Za-z0-9_-]{20,200})",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+\d{0,2}|[A-Z]+(?![a-z])|\d+")
_BINDER = re.compile(r"(?:=>|[=:>,|]|\bis|----)[\s\"'`\\(\[{]{0,12}$")
_OPEN = " \t\r\n\"'`\\([{<"
_KEYED = frozenset(
    "key keys apikey token tokens secret secrets password passwd pass passcode pwd auth authtoken authorization"
    " credential credentials cred creds crumb licence license signature sig access pat dsn bearer cookie".split()
)
# What is named so is long and looks like chance, and opens nothing.
_HARMLESS = frozenset(
    "id ids uid uuid guid sha sha1 sha256 sha512 md5 hash hashes digest checksum etag commit commits rev revision ref"
    " fingerprint thumbprint integrity version build release tag branch trace span request cursor page nonce"
    " csrf public pub path file filename url uri host name endpoint bucket region image layer blob object"
    " dataset run job pipeline account project org organization tenant app application".split()
)


class NearbySecret(NamedTuple):
    """A value, where it stands, and whose it is."""

    kind: str
    start: int
    end: int


def find_near_service_names(text: str, budget: Budget) -> Iterator[NearbySecret]:
    """Credentials that are known by the service which is named just before them."""
    for run in _RUN.finditer(text):
        start, value = run.start(), run[0]
        budget.spend(len(value))
        if lead := _LEAD.match(value):
            start, value = start + lead.end(), value[lead.end() :]
        value = value.rstrip(".:")
        if _could_open(value):
            before = text[max(0, start - _LOOK_BACK) : start]
            if service := _service(before, value):
                yield NearbySecret(f"{service} key", start, start + len(value))
            elif _is_fashioned(value):
                yield NearbySecret("token", start, start + len(value))


def _could_open(value: str) -> bool:
    if UUID.fullmatch(value):
        return True
    plain = value.replace("-", "").replace(":", "")
    if HEX.fullmatch(plain):
        return len(plain) >= 20 and len(set(plain)) >= 8
    return not is_reference(value) and is_random(value)


def _is_fashioned(value: str) -> bool:
    match = _FASHION.fullmatch(value)
    if not match or UUID.fullmatch(match["body"]):
        return False
    body = match["body"]
    if HEX.fullmatch(body):
        return len(body) >= 32
    return is_random(body) and any(c.isdigit() for c in body) and "__" not in body and "--" not in body


def _service(before: str, value: str) -> str:
    """The service whose credential the value is, by what is said before it; empty for none."""
    bound = bool(_BINDER.search(before))
    said = before.rstrip(_OPEN + "=>:,|-?").rpartition("\n\n")[2]
    words = [word.lower() for word in _WORD.findall(said)]
    if not words:
        return ""
    service = next((SERVICES[name] for name in _names(words) if name in SERVICES), "")
    if not service:
        return ""
    near = words[-4:]
    keyed = not _KEYED.isdisjoint(near)
    if (words[-1] in _HARMLESS and (words[-1] != "id" or "key" not in near[-2:])) or (
        not keyed and not _HARMLESS.isdisjoint(near)
    ):
        return ""
    if UUID.fullmatch(value) or HEX.fullmatch(value):
        return service if keyed and (bound or words[-1] in _KEYED) else ""
    return service if (bound and keyed) or (bound and len(words) <= 3) or words[-1] in _KEYED else ""


def _names(words: list[str]) -> Iterator[str]:
    """Each word, and each with the one after it: `new relic`, `launchDarkly`; the nearest first."""
    for at in range(len(words) - 1, -1, -1):
        yield words[at]
        if at:
            yield words[at - 1] + words[at]
