// Shows an OpenAPI description and calls what it describes. Everything that comes from the
// description or from a response is set as text, never as HTML.

import { curlOf, formOf, isStream, read, readable, requestOf } from "./calls.js";
import { example, nameOf, resolved, typeOf, use } from "./schemas.js";

const { page, description } = document.body.dataset;
const here = location.pathname.replace(/\/$/, "");
const root = here.endsWith(page) ? here.slice(0, -page.length) : "";
const VERBS = ["get", "post", "put", "patch", "delete"];
const token = document.getElementById("token");
token.value = sessionStorage.getItem("token") ?? "";
token.addEventListener("input", () => keep(token.value));
document.getElementById("access").addEventListener("submit", (event) => event.preventDefault());

let api = {};

// Keeps the token for the calls that follow, and for this page when it is loaded again.
function keep(value) {
  token.value = value;
  sessionStorage.setItem("token", value);
}

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function field(parameter, id) {
  const list = resolved(parameter.schema).type === "array";
  const hint = typeOf(parameter.schema) + (list ? ", separated by commas" : "");
  const input = element("input", {
    id, placeholder: hint, required: Boolean(parameter.required), autocomplete: "off",
    spellcheck: false,
  });
  const title = [parameter.description ?? "", hint].filter(Boolean).join(" ");
  const mark = parameter.required ? " (required)" : "";
  return { parameter, input, row: [
    element("label", { htmlFor: id, title }, element("code", {}, parameter.name), mark), input,
  ] };
}

// Tells what a call did to the token, and keeps it so: a sign-in returns one, a sign-out ends it.
function tokenNote(operation, response, text) {
  const change = response.ok ? operation["x-alula-token"] : undefined;
  const issued = change === "issued" ? JSON.parse(text).accessToken : undefined;
  if (issued) keep(issued);
  if (change === "revoked") keep("");
  if (issued) return element("p", {}, "Signed in. The token is in the field at the top.");
  return change === "revoked" ? element("p", {}, "Signed out.") : null;
}

// Returns the inputs of a form: files, and texts.
function formInputs(given, id) {
  const { properties = {}, required = [] } = resolved(given);
  return Object.entries(properties).map(([name, schema], index) => element("input", {
    id: `${id}form-${index}`, name, required: required.includes(name), autocomplete: "off",
    ...(schema.items?.format === "binary" ? { type: "file", multiple: true } : { placeholder: typeOf(schema) }),
  }));
}

// Makes a call and shows its response below the form. A stream is shown until somebody stops it.
async function call(verb, { url, headers }, operation, { body, accept = "application/json" }, output) {
  const sent = { ...headers, Accept: accept };
  if (token.value) sent.Authorization = `Bearer ${token.value.trim()}`;
  if (typeof body === "string") sent["Content-Type"] = "application/json";
  const stop = new AbortController();
  output.replaceChildren(element("p", {}, "Waiting"));
  try {
    const response = await fetch(url, { method: verb.toUpperCase(), headers: sent, body, signal: stop.signal });
    const status = element("p", { className: response.ok ? "status-good" : "status-bad" },
      element("strong", {}, `${response.status}`), ` ${verb.toUpperCase()} ${url}`);
    const shown = element("pre", { tabIndex: 0 });
    if (isStream(response)) {
      const button = element("button", { type: "button", className: "quiet" }, "Stop");
      button.addEventListener("click", () => stop.abort());
      output.replaceChildren(status, shown, button);
      await read(response, shown);
      button.replaceWith(element("p", { className: "hint" }, "The stream has ended."));
      return;
    }
    const text = await response.text();
    shown.textContent = readable(text) || "(no content)";
    output.replaceChildren(status, shown, ...[tokenNote(operation, response, text)].filter(Boolean));
  } catch (error) {
    if (stop.signal.aborted) output.lastChild.replaceWith(element("p", { className: "hint" }, "Stopped."));
    else output.replaceChildren(element("p", { className: "status-bad" }, `No response: ${error.message}`));
  }
}

// Returns the responses of an operation, each with an example. The first one is open.
function responses(operation) {
  return Object.entries(operation.responses).map(([status, given], index) => {
    const response = resolved(given);
    const [type, content] = Object.entries(response.content ?? {})[0] ?? [];
    const item = content?.["x-itemSchema"];
    const schema = item ?? (type === "application/json" ? content.schema : undefined);
    const kind = /^[23]/.test(status) ? "status-good" : "status-bad";
    return element("details", { className: "response", open: index === 0 },
      element("summary", {}, element("code", { className: kind }, status === "default" ? "other" : status),
        ` ${response.description}`),
      schema ? element("p", { className: "hint" }, item ? `Each item: ${nameOf(schema)}` : nameOf(schema)) : null,
      schema
        ? element("pre", { tabIndex: 0 }, JSON.stringify(example(schema, { all: true }), null, 2))
        : element("p", { className: "hint" }, type ?? "No content"));
  });
}

// Returns the command for a terminal, which follows what the fields hold.
function terminal(commandOf, form) {
  const command = element("pre", { tabIndex: 0 }, commandOf());
  const copy = element("button", { type: "button", className: "quiet" }, "Copy");
  const show = () => { command.textContent = commandOf(); };
  form.addEventListener("input", show);
  form.addEventListener("change", show);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command.textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  return element("details", { className: "terminal" }, element("summary", {}, "In a terminal"), command, copy);
}

function operationView(path, verb, operation, shared) {
  const id = `${operation.operationId}-`;
  const fields = [...shared, ...(operation.parameters ?? [])].map(
    (parameter, index) => field(parameter, `${id}${index}`),
  );
  const operators = fields.filter(({ parameter }) => /.\[\$/.test(parameter.name));
  const usual = fields.filter((each) => !operators.includes(each));
  const content = operation.requestBody?.content ?? {};
  const upload = content["multipart/form-data"]?.schema;
  const inputs = upload ? formInputs(upload, id) : [];
  const schema = upload ? undefined : content["application/json"]?.schema;
  const body = schema
    ? element("textarea", { id: `${id}body`, spellcheck: false, value: JSON.stringify(example(schema), null, 2) })
    : null;
  const output = element("div", { className: "answer", "aria-live": "polite" });
  const types = Object.keys(resolved(operation.responses["200"] ?? operation.responses["201"]).content ?? {});
  const streamed = types.includes("text/event-stream");
  const buttons = element("p", { className: "buttons" },
    element("button", { type: "submit" }, operation["x-alula-token"] ? operation.summary : "Send"));
  const form = element("form", {},
    operation.description && operation.description !== operation.summary
      ? element("p", {}, operation.description) : null,
    fields.length ? element("h3", {}, "Parameters") : null,
    element("div", { className: "fields" }, ...usual.flatMap(({ row }) => row)),
    operators.length ? element("details", { className: "operators" }, element("summary", {}, "Operators"),
      element("div", { className: "fields" }, ...operators.flatMap(({ row }) => row))) : null,
    body && element("h3", {}, element("label", { htmlFor: `${id}body` }, "Body")),
    body,
    upload ? element("h3", {}, "Form") : null,
    element("div", { className: "fields" }, ...inputs.flatMap((input) => [
      element("label", { htmlFor: input.id }, element("code", {}, input.name)), input,
    ])),
    buttons,
    output,
  );
  const request = () => requestOf(root, path, fields);
  form.append(terminal(() => {
    const { url, headers } = request();
    return curlOf(verb, url, headers, { body: body?.value, inputs, needsToken: needsToken(operation) });
  }, form));
  const accept = streamed && !types.includes("application/json") ? "text/event-stream" : undefined;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call(verb, request(), operation, { body: upload ? formOf(inputs) : body?.value, accept }, output);
  });
  if (streamed && !accept) {
    const watch = element("button", { type: "button", className: "quiet" }, "Watch");
    const isLive = resolved(operation.responses["200"]).content["text/event-stream"]["x-alula-live"];
    watch.title = isLive ? "The result and its changes, while they happen" : "Events, while they happen";
    watch.addEventListener("click", () => {
      const { url, headers } = request();
      const live = isLive ? `${url}${url.includes("?") ? "&" : "?"}$live=true` : url;
      call(verb, { url: live, headers }, operation, { accept: "text/event-stream" }, output);
    });
    buttons.append(watch);
  }
  const lock = needsToken(operation) ? element("span", { className: "lock" }, " (needs a token)") : null;
  return element("details", { className: "operation", id: operation.operationId },
    element("summary", {}, element("span", { className: `verb ${verb}` }, verb.toUpperCase()),
      element("code", {}, path), element("span", { className: "what" }, ` ${operation.summary}`), lock),
    element("div", { className: "sides" }, form,
      element("aside", {}, element("h3", {}, "Responses"), ...responses(operation))));
}

// Returns whether a call without credentials is refused.
function needsToken(operation) {
  return Boolean(operation.security?.every((way) => Object.keys(way).length));
}

function schemaView(name, schema) {
  return element("details", { className: "operation" },
    element("summary", {}, element("code", {}, name)),
    element("pre", { tabIndex: 0 }, JSON.stringify(schema, null, 2)));
}

// Shows the operations whose path or summary has a text, and the services that have one of them.
function narrow(text, sections) {
  const wanted = text.trim().toLowerCase();
  for (const { section, entry } of sections) {
    let shown = 0;
    for (const view of section.querySelectorAll("details.operation")) {
      view.hidden = !view.querySelector("summary").textContent.toLowerCase().includes(wanted);
      shown += view.hidden ? 0 : 1;
    }
    section.hidden = entry.hidden = shown === 0;
  }
}

function show() {
  document.title = `${api.info.title} ${api.info.version}`;
  document.getElementById("title").textContent = document.title;
  document.getElementById("about").textContent = api.info.description ?? "";
  if (api.externalDocs) {
    const { url, description: text } = api.externalDocs;
    const href = new URL(url, new URL(root + description, location.href)).pathname;
    document.getElementById("descriptions").append(", ", element("a", { href, title: text }, url));
  }
  const sections = api.tags.map(({ name, description: text }, index) => {
    const id = `service-${index}`;
    const section = element("section", { id }, element("h2", {}, name), text ? element("p", {}, text) : null);
    return { name, section, entry: element("li", {}, element("a", { href: `#${id}` }, name)) };
  });
  for (const [path, item] of Object.entries(api.paths)) {
    for (const verb of VERBS.filter((each) => item[each])) {
      const view = operationView(path, verb, item[verb], item.parameters ?? []);
      sections.find(({ name }) => name === item[verb].tags[0]).section.append(view);
      if (item[verb]["x-alula-token"] === "issued") signInLink(item[verb].operationId);
    }
  }
  document.getElementById("index").replaceChildren(...sections.map(({ entry }) => entry));
  const schemas = Object.entries(api.components.schemas);
  document.getElementById("services").replaceChildren(...sections.map(({ section }) => section),
    element("details", { id: "schemas" }, element("summary", {}, "Schemas"),
      ...schemas.map(([name, schema]) => schemaView(name, schema))));
  const search = document.getElementById("search");
  search.addEventListener("input", () => narrow(search.value, sections));
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, textarea");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      search.focus();
    }
  });
}

// Leads to the operation that returns a token.
function signInLink(id) {
  const link = element("a", { href: `#${id}` }, "Sign in");
  link.addEventListener("click", () => { document.getElementById(id).open = true; });
  document.getElementById("token-help").append(" ", link);
}

try {
  const response = await fetch(root + description, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`${response.status} at ${root + description}`);
  api = await response.json();
  use(api);
  show();
} catch (error) {
  document.getElementById("services").replaceChildren(
    element("p", { role: "alert" }, `The description could not be loaded: ${error.message}`));
}
