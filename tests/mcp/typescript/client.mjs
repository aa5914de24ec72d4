// Connects as the TypeScript SDK's client does, lists the tools, calls some, and tells what came as JSON.
//
// Standard input: {"sdk": "v1" | "v2", "mode": "legacy" | "auto", "servers": […]}, each of these {"url", "headers"} or
// {"command", "args", "env"}, and "calls": [{"name", "arguments"}]. Standard output: for each of them {"version",
// "server", "instructions", "tools", "calls"}, or {"refused": "…"} when nobody was let in.

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

async function call(client, { name, arguments: given }) {
  try {
    return { result: await client.callTool({ name, arguments: given }) };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

async function talk(client, transport, calls) {
  const told = {
    version: transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.(),
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    tools: (await client.listTools()).tools,
    calls: [],
  };
  for (const one of calls) told.calls.push(await call(client, one));
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
    return await talk(client, transport, server.calls ?? []);
  } catch (error) {
    return { refused: `${error.name} ${error.code ?? ""}: ${error.message}` };
  } finally {
    await client.close();
  }
}

const told = [];
for (const server of wanted.servers) told.push(await visit(server));
console.log(JSON.stringify(told));
