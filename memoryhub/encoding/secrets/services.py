# ruff: noqa: E501 a pattern is easier read unbroken
"""Services whose credentials carry no mark: how they are written in names, and what they are called."""

from __future__ import annotations

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
