// Reports the sessions of OpenCode to memoryhub and adds the memories that it returns.
// Written by "memoryhub connect"; it needs the token in MEMORYHUB_TOKEN, and is silent when the hub is away.

import { execFile } from "node:child_process";

const HUB = "HUB_URL";
const TIMEOUT_MS = 1000 * (process.env.MEMORYHUB_HOOK_TIMEOUT || 1);

const git = (cwd, ...args) =>
  new Promise((resolve) => {
    execFile("git", args, { cwd, timeout: TIMEOUT_MS }, (error, out) => resolve(error ? "" : out.trim()));
  });

/** Return the remote of the repository without credentials, its first commit, and the path of the folder in it. */
async function findRepository(cwd) {
  const [remote, roots, subfolder] = await Promise.all([
    git(cwd, "remote", "get-url", "origin"),
    git(cwd, "rev-list", "--max-parents=0", "--first-parent", "HEAD"),
    git(cwd, "rev-parse", "--show-prefix"),
  ]);
  const isLocal = /^([/.]|file:)/.test(remote);
  const address = isLocal ? "" : remote.replace(/^(\w+:\/\/)?[^/]*@/, "$1");
  return { remote: address, root: roots.split("\n").pop(), ...(roots && { subfolder }) };
}

async function post(event, hook) {
  const headers = { Authorization: `Bearer ${process.env.MEMORYHUB_TOKEN}`, "Content-Type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(hook), signal: AbortSignal.timeout(TIMEOUT_MS) };
  try {
    const answer = await fetch(`${HUB}/api/v1/hooks/opencode?event=${event}`, request);
    return answer.ok ? Object(await answer.json()) : {};
  } catch {
    return {};
  }
}

export const Memoryhub = async ({ directory }) => {
  if (!process.env.MEMORYHUB_TOKEN) return {};
  const parents = new Map(); // a subagent works in the session that started it
  const started = new Set();
  const repository = findRepository(directory);
  const rootOf = (id) => (parents.has(id) ? rootOf(parents.get(id)) : id);
  const send = async (event, sessionID, more) =>
    post(event, { session_id: rootOf(sessionID), cwd: directory, repository: await repository, ...more });
  const end = (id) => (started.delete(id) ? send("session.deleted", id) : undefined);

  return {
    event: async ({ event: { type, properties } }) => {
      const { id, parentID } = properties.info ?? {};
      if (type === "session.created" && parentID) parents.set(id, parentID);
      if (type === "session.compacted") await send(type, properties.sessionID);
      if (type === "session.deleted") await end(id);
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const words = parts.filter((part) => part.type === "text" && !part.synthetic);
      if (parents.has(sessionID) || !words.length) return;
      const answers = [];
      if (!started.has(sessionID)) {
        started.add(sessionID);
        answers.push(await send("session.created", sessionID));
      }
      answers.push(await send("chat.message", sessionID, { prompt: words.map((part) => part.text).join("\n") }));
      const text = answers.map((answer) => answer.context).filter(Boolean).join("\n\n");
      if (!text) return;
      const { id } = parts[parts.length - 1]; // parts are sorted by their ids
      parts.push({ id: `${id}m`, sessionID, messageID: message.id, type: "text", text, synthetic: true });
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
      const response = { output: output.output, exitCode: output.metadata?.exit };
      const call = { tool_name: tool, tool_use_id: callID, tool_input: args, tool_response: response };
      const { context } = await send("tool.execute.after", sessionID, call);
      if (context) output.output = `${output.output}\n\n${context}`;
    },
    dispose: async () => {
      await Promise.all([...started].map(end));
    },
  };
};
