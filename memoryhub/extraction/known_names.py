"""Names that are unambiguous without context: tools, organisations, places, given names.

Names that are common English words (go, rust, make, may) are left out.
"""

from __future__ import annotations

TOOLS = frozenset(
    """ansible apache astro aws azure babel bash bazel bootstrap bun caddy cargo cassandra celery chromadb
    clickhouse cloudflare cmake composer conda consul couchdb cypress datadog datasette debian deno django
    docker duckdb dynamodb elasticsearch elixir emacs erlang esbuild eslint fastapi fedora ffmpeg figma
    firebase firefox flask flutter fluentd gatsby gcc gdb gitlab golang grafana gradle graphql grpc gunicorn
    hadoop haskell heroku hibernate homebrew htmx influxdb istio javascript jenkins jest jira julia jupyter
    kafka keras keycloak kibana kotlin kubernetes laravel latex letsgo linux llvm logstash lua macos mariadb
    markdown matplotlib maven mercurial minio mongodb mypy mysql neo4j neovim netlify nextjs nginx nix node
    nodejs npm numpy nuxt nvim openapi opentelemetry oracle pandas php pinecone pip playwright pnpm podman
    poetry postgres postgresql powershell prettier prisma prometheus protobuf puppeteer pycharm pydantic
    pylint pytest python pytorch qdrant rabbitmq rails react redis ripgrep rollup ruby ruff rustc s3 sanic
    sass scala scikit-learn selenium sentry sinatra snowflake solr spacy splunk sqlalchemy sqlite storybook
    supabase svelte swiftui symfony systemd tailwind tailwindcss tensorflow terraform tmux traefik typescript
    ubuntu uvicorn vagrant valkey vercel vim vite vitest vscode vue weaviate webpack wireguard wordpress xcode
    yarn zsh zustand sqlite3 fts5 pgvector wordllama granian whitenoise hypothesis schemathesis mypy uv
    ollama langchain llamaindex duckduckgo obsidian notion slack zoom confluence trello asana bitbucket
    github copilot kubectl helm argocd nomad packer""".split()
)

ORGANISATIONS = frozenset(
    """accenture adobe airbnb alibaba amazon amd anthropic apple atlassian bmw bosch canonical cern cisco
    deepmind dell deloitte ebay ericsson facebook gartner google hashicorp huawei ibm ikea intel jetbrains
    linkedin lufthansa mckinsey meta microsoft mistral mozilla nasa netflix nokia nvidia openai oracle oxfam
    paypal philips samsung sap salesforce siemens sony spotify stripe tesla thoughtworks toyota twitter uber
    unesco unicef volkswagen volvo xerox yahoo zalando""".split()
)

PLACES = frozenset(
    """africa amsterdam argentina asia athens auckland australia austria bangalore bangkok barcelona bavaria
    beijing belgium berlin bogota boston brazil brussels budapest bulgaria cairo california canada chennai
    chicago chile china colombia copenhagen croatia cyprus dallas delhi denmark denver dubai dublin edinburgh
    egypt england estonia europe finland france frankfurt geneva germany ghana greece hamburg hanoi helsinki
    hungary iceland india indonesia iran iraq ireland israel istanbul italy jakarta japan jerusalem
    johannesburg kenya kiev korea kyiv kyoto lagos latvia lima lisbon lithuania london luxembourg lyon madrid
    malaysia manila marseille melbourne mexico miami milan montreal morocco moscow mumbai munich nairobi
    naples nepal netherlands nigeria norway osaka oslo pakistan paris peru philadelphia philippines poland
    porto portugal prague riga romania rome rotterdam russia salzburg santiago scotland seattle seoul shanghai
    shenzhen singapore slovakia slovenia sofia spain stockholm stuttgart sweden switzerland sydney taipei
    taiwan tallinn tbilisi tehran texas thailand tokyo toronto toulouse tunisia turin turkey uganda ukraine
    utrecht vancouver venice vienna vietnam vilnius wales warsaw wellington zagreb zurich köln münchen wien
    zürich""".split()
)
LONG_PLACES = (
    "Buenos Aires|Cape Town|Costa Rica|Hong Kong|Kuala Lumpur|Los Angeles|Mexico City|New Delhi|New York City"
    "|New York|New Zealand|Rio de Janeiro|San Francisco|San Diego|Saudi Arabia|South Africa|South Korea"
    "|Sri Lanka|São Paulo|Tel Aviv|United Kingdom|United States|United Arab Emirates|Ho Chi Minh City"
    "|Salt Lake City|Las Vegas"
)

GIVEN_NAMES = frozenset(
    """aaron abigail adam aditya adrian agnes ahmed aisha akira alan albert alejandro aleksandr alex alexander
    alexandra alexis ali alice alicia alina alison amanda amir amit amy ana anders andre andrea andreas andrew
    angela anika anita anja anna anne annika anthony antonio anya arjun arthur arun asha ashley astrid barbara
    beatrice ben benjamin bernd bernhard beth bianca bob boris brenda brian bridget bruno camila carla carlos
    carmen carol caroline catherine cecilia charles charlotte chen chiara chloe chris christian christina
    christine christopher claire clara claudia colin connor craig cristina daniel daniela danielle darius
    david deborah deepak denis derek diana diego dieter dimitri dmitri dominik donald donna dorothy douglas
    eduardo edward elena eleanor elias elif elisabeth elizabeth ella ellen emil emily emma eric erik erika
    esther ethan eva evelyn fabian farah fatima felix fernando fiona florian francesca francisco frank franz
    frederik frida gabriel gabriela george georg giulia gloria gordon grace greg gregory greta guillermo
    gustav hannah hans harald harold harry hassan heather heidi helen helena helga henrik henry hiroshi hugo
    ian ibrahim igor ines ingrid irene irina isabel isabella ivan jack jacob jakob james jan jana jane janet
    jasmine jason javier jean jeff jeffrey jennifer jens jeremy jessica jill joan joanna joao joe joel johan
    johannes john jonas jonathan jorge jose josef joseph joshua juan judith julian juliane julie jun jurgen
    justin kai karen karin karl karsten kate katharina katherine kathleen katja katrin keiko keith kelly ken
    kenji kenneth kevin khalid kim klaus kristin kumar kwame kyle lars laura lauren lea leah lena leo leon
    leonard leonie leticia liam lily linda lisa logan louis louise luca lucas lucia lucy luis luisa lukas
    madison magnus maja manuel marc marcel marcus margaret maria marie marina mario markus marta martha martin
    martina mary mateo matteo matthew matthias maurice max maximilian maya mehmet mei melanie melissa mia
    michael michaela michelle miguel mika mikhail mila milan mina miriam mohamed mohammed monica monika moritz
    nadia nancy naomi natalia natalie natasha nathan neha nicholas nick nicolas nicole niels nikhil nikita
    nina noah noor nora norbert oleg olga oliver olivia omar oscar otto owen pablo paola patricia patrick paul
    paula paulo pavel pedro peter petra philip philipp pierre pia piotr priya rachel rafael rahul rainer raj
    ralf ramona raquel raul ravi rebecca renate ricardo richard rita robert roberto robin rodrigo roger roland
    roman ronald rosa rosalind ruth ryan sabine sabrina salma sam samantha samir samuel sandra sanjay sara
    sarah sebastian serena sergei sergio shannon sharon shreya silke silvia simon simone sofia sonja sophia
    sophie stefan stefanie stella stephanie stephen steve steven stuart sunita susan susanne svetlana sven
    sylvia takeshi tamara tanja tanya tara tatiana teresa theo theresa thomas tim timothy tina tobias tom
    tomas torsten ulrich ulrike ursula uwe valentina valeria vanessa vera veronica victor victoria vijay
    vikram viktor vincent vladimir volker walter wei wendy werner wilhelm william wolfgang xavier yan yara yi
    yuki yuri yusuf yvonne zahra zoe""".split()
)
