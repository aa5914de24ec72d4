// Connects as the TypeScript SDK's client does, lists the tools, calls some, and tells what came as JSON.
//
// Standard input: {"sdk": "v1" | "v2", "mode": "legacy" | "auto", "servers": […]}, each of these {"url", "headers"} or
// {"command", "args", "env"}, and "calls": [{"name", "arguments"}], "resources": [address], "prompts": [{"name",
// "arguments"}]. An argument "$id" is the id in the latest answer that has one. Standard output: for each of them
// {"version", "server", "instructions", "tools", "calls", "listed", "resources", "prompts"}, or {"refused": "…"}.

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

function transportTo({ url, headers, command, args, env }) {
  if (!url) return new StdioClientTransport({ command, args, env });
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
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
  const told = {
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
  for (const uri of resources) told.resources.push(await attempt(() => client.readResource({ uri })));
  for (const one of prompts) told.prompts.push(await attempt(() => client.getPrompt(one)));
  if (transport.sessionId) {
    await transport.terminateSession();
    told.ended = true;
  }
  return told;
}

async function visit(server) {
  const client = new Client({ name: "tests", version: "1" }, { versionNegotiation: { mode: wanted.mode } });
  const transport = transportTo(server);
  try {
    await client.connect(transport);
    return await talk(client, transport, server);
  } catch (error) {
    return { refused: `${error.name} ${error.code ?? ""}: ${error.message}` };
  } finally {
    await client.close();
  }
}

const told = [];
for (const server of wanted.servers) told.push(await visit(server));
console.log(JSON.stringify(told));
