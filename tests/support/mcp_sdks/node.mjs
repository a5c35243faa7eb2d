// A session of a TypeScript SDK's client; argv: node_modules, the era, and the server. Prints what it saw as JSON.
// Eras: "v1" (package sdk), "legacy" and "modern" (package client).
import { pathToFileURL } from "node:url";

const [modules, era, command, ...args] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`));
const v1 = era === "v1";
const { Client } = await load(v1 ? "sdk/dist/esm/client/index.js" : "client/dist/index.mjs");
const { StdioClientTransport } = await load(v1 ? "sdk/dist/esm/client/stdio.js" : "client/dist/stdio.mjs");
const answers = [
  { action: "decline" },
  { action: "accept", content: { decision: "deny" } },
  { action: "accept", content: { decision: "allow once" } },
];
const LEFT =
  "for i in 1 2 3 4 5 6 7 8 9; do ps | grep -q '[s]leep 7654' || break; sleep 0.3; done; ps | grep -c '[s]leep 7654'";
const seen = { asked: [], wiped: [], progress: [] };
const shown = (result) => [result.content[0].text, result.isError === true];

const options = { capabilities: { elicitation: { form: {} } } };
if (era === "modern") options.versionNegotiation = { mode: "auto" };
const client = new Client({ name: "test", version: "1" }, options);
const answer = async (request) => {
  seen.asked.push(request.params.message);
  return answers[seen.asked.length - 1];
};
if (v1) {
  const { ElicitRequestSchema } = await load("sdk/dist/esm/types.js");
  client.setRequestHandler(ElicitRequestSchema, answer);
} else client.setRequestHandler("elicitation/create", answer);
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));

const call = (name, given, how) =>
  v1 ? client.callTool({ name, arguments: given }, undefined, how) : client.callTool({ name, arguments: given }, how);
seen.version = v1 ? client.transport._protocolVersion ?? null : client.getNegotiatedProtocolVersion?.() ?? null;
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.hello = shown(await call("shell", { command: "echo hello" }));
seen.status = shown(await call("shell", { command: "false" }));
seen.wrong = shown(await call("shell", { cmd: "x" }));
seen.error = await call("nothing", {}).catch((error) => error.code);
for (const _ of answers) seen.wiped.push(shown(await call("shell", { command: "rm -rf ./*" })));
const onprogress = ({ progress, message }) => seen.progress.push([progress, message]);
if (process.env.LONG) seen.slept = shown(await call("shell", { command: "sleep 6; echo slept" }, { onprogress }));
const abort = new AbortController();
const waiting = call("shell", { command: "sleep 7654" }, { signal: abort.signal }).catch(() => undefined);
await new Promise((resolve) => setTimeout(resolve, 1000));
abort.abort("no longer wanted");
await waiting;
seen.left = shown(await call("shell", { command: LEFT }));
await client.close();
console.log(JSON.stringify(seen));
