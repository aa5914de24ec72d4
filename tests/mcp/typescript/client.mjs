// Connects as the TypeScript SDK's client does, lists the tools, calls some, and tells what came as JSON.
//
// Standard input: {"sdk": "v1" | "v2", "mode": "legacy" | "auto", "servers": […]}, each of these {"url", "headers"} or
// {"command", "args", "env"}, and "calls": [{"name", "arguments"}], "resources": [address], "prompts": [{"name",
// "arguments"}]. An argument "$id" is the id in the latest answer that has one. Standard output: for each of them
// {"version", "server", "instructions", "tools", "calls", "listed", "resources", "prompts"}, or {"refused": "…"}.
//
// A server with "oauth": {"cookie"}, the cookies of a signed-in person, is visited without a token. The answer is
// {"connected", "refreshed", "revoked", "asked"}: the first three are reports, "asked" says how often a person was asked.

import { readFileSync } from "node:fs";

const wanted = JSON.parse(readFileSync(0, "utf8"));

async function load() {
  if (wanted.sdk === "v2") {
    const [main, stdio] = await Promise.all([
      import("@modelcontextprotocol/client"),
      import("@modelcontextprotocol/client/stdio"),
    ]);
    return { ...main, ...stdio };
  }
  const [client, http, stdio] = await Promise.all([
    import("@modelcontextprotocol/sdk/client/index.js"),
    import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    import("@modelcontextprotocol/sdk/client/stdio.js"),
  ]);
  return { ...client, ...http, ...stdio };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await load();

function transportTo({ url, headers, command, args, env, authProvider }) {
  if (!url) return new StdioClientTransport({ command, args, env });
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, authProvider });
}

// An app that stores what the SDK gives it. The person's browser is `fetch` with their cookies.
class App {
  redirectUrl = "http://127.0.0.1:9/callback";
  clientMetadata = {
    client_name: `TypeScript ${wanted.sdk}`,
    redirect_uris: [this.redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  asked = 0;
  constructor(cookie) {
    this.cookie = cookie;
  }
  state = () => "a state";
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.saved;
  saveTokens = (tokens) => void (this.saved = tokens);
  invalidateCredentials = () => void (this.saved = undefined);
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  codeVerifier = () => this.verifier;
  async redirectToAuthorization(address) {
    this.asked += 1;
    const headers = { cookie: this.cookie, "content-type": "application/x-www-form-urlencoded", origin: address.origin };
    const page = await (await fetch(address, { headers })).text();
    const form = new URLSearchParams({ name: "app", clearance: "public", decision: "allow" });
    form.append("csrfmiddlewaretoken", /name="csrfmiddlewaretoken" value="([^"]+)"/.exec(page)[1]);
    for (const right of ["read", "write"]) form.append("rights", right);
    const answer = await fetch(address, { method: "POST", headers, body: form, redirect: "manual" });
    this.callback = new URL(answer.headers.get("location")).searchParams;
  }
}

async function connectApp(server, app) {
  const first = transportTo({ ...server, authProvider: app });
  const report = await visit(server, first);
  if (report.refused === undefined || app.callback === undefined) return report;
  await first.finishAuth(wanted.sdk === "v2" ? app.callback : app.callback.get("code"));
  app.callback = undefined;
  return visit(server, transportTo({ ...server, authProvider: app }));
}

async function visitAsApp(server) {
  const app = new App(server.oauth.cookie);
  const connected = await connectApp(server, app);
  const old = app.saved;
  app.saved = { ...old, access_token: "mh_expired" };
  const refreshed = await connectApp(server, app);
  const rotated = app.saved.refresh_token !== old.refresh_token;
  const body = new URLSearchParams({ client_id: app.client.client_id, token: app.saved.refresh_token });
  await fetch(new URL("/api/v1/oauth/revoke", server.url), { method: "POST", body });
  app.redirectToAuthorization = () => void (app.asked += 1);
  const revoked = await connectApp(server, app);
  return { connected, refreshed: { ...refreshed, rotated }, revoked, asked: app.asked };
}

async function attempt(action) {
  try {
    return { result: await action() };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

function findId({ structuredContent, content }) {
  return structuredContent?.id ?? /ID: (\w+)/.exec(content[0].text)?.[1];
}

async function callAll(client, calls) {
  const answers = [];
  let latest;
  for (const { name, arguments: given } of calls) {
    const filled = Object.entries(given).map(([key, value]) => [key, value === "$id" ? latest : value]);
    answers.push(await attempt(() => client.callTool({ name, arguments: Object.fromEntries(filled) })));
    latest = (answers.at(-1).result && findId(answers.at(-1).result)) ?? latest;
  }
  return answers;
}

async function talk(client, transport, { calls = [], resources = [], prompts = [] }) {
  const report = {
    version: transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.(),
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: (await client.listTools()).tools,
    calls: await callAll(client, calls),
    listed: {
      resources: (await client.listResources()).resources.map((one) => one.name),
      prompts: (await client.listPrompts()).prompts.map((one) => one.name),
    },
    resources: [],
    prompts: [],
  };
  for (const uri of resources) report.resources.push(await attempt(() => client.readResource({ uri })));
  for (const one of prompts) report.prompts.push(await attempt(() => client.getPrompt(one)));
  if (transport.sessionId) {
    await transport.terminateSession();
    report.ended = true;
  }
  return report;
}

async function visit(server, transport = transportTo(server)) {
  const client = new Client({ name: "tests", version: "1" }, { versionNegotiation: { mode: wanted.mode } });
  try {
    await client.connect(transport);
    return await talk(client, transport, server);
  } catch (error) {
    return { refused: `${error.name} ${error.code ?? ""}: ${error.message}` };
  } finally {
    await client.close();
  }
}

const reports = [];
for (const server of wanted.servers) reports.push(await (server.oauth ? visitAsApp(server) : visit(server)));
console.log(JSON.stringify(reports));
