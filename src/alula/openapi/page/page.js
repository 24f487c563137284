// Shows an OpenAPI description and calls what it describes. Everything that comes from the
// description or from an answer is set as text, never as HTML.

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

function resolved(schema) {
  for (let times = 0; schema?.$ref && times < 10; times += 1) {
    schema = schema.$ref.slice(2).split("/").reduce((part, name) => part?.[name], api);
  }
  return schema ?? {};
}

function typeOf(given, depth = 0) {
  const schema = resolved(given);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf || schema.oneOf) {
    const types = (schema.anyOf ?? schema.oneOf).map((each) => typeOf(each, depth + 1));
    return [...new Set(types)].join(" | ");
  }
  if (schema.type === "array" && depth < 3) return `list of ${typeOf(schema.items, depth + 1)}`;
  const type = [schema.type ?? "anything"].flat().join(" | ");
  return schema.format ? `${type} (${schema.format})` : type;
}

// Returns an example of what a schema describes.
function example(given, depth = 0) {
  const schema = resolved(given);
  const known = schema.default ?? schema.const ?? schema.examples?.[0] ?? schema.enum?.[0];
  if (known !== undefined && known !== null) return known;
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return example(choices.find((each) => resolved(each).type !== "null"), depth);
  const type = [schema.type].flat()[0];
  if (depth > 4) return null;
  if (type === "array") return [];
  if (type === "string" && schema.format === "date-time") return new Date().toISOString();
  if (type === "string") return "text".padEnd(schema.minLength ?? 0, "-text");
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "boolean") return false;
  if (type !== "object" && !schema.properties) return type === undefined ? {} : null;
  const required = schema.required ?? Object.keys(schema.properties ?? {});
  return Object.fromEntries(
    required.map((name) => [name, example(schema.properties?.[name], depth + 1)]),
  );
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

// Returns address and headers of a call. What the fields of a free query hold is taken as it is.
function requestOf(path, fields) {
  const headers = {};
  const query = [];
  for (const { parameter, input } of fields) {
    const value = input.value.trim();
    if (value === "") continue;
    const name = encodeURIComponent(parameter.name);
    const type = resolved(parameter.schema).type;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (parameter.in === "header") headers[parameter.name] = value;
    else if (type === "object" && parameter.style === "form") query.push(value);
    else if (type === "object") {
      for (const pair of value.split(",")) {
        const [key, of] = pair.split("=").map((part) => encodeURIComponent(part.trim()));
        query.push(`${name}[${key}]=${of ?? ""}`);
      }
    } else {
      const values = type === "array" ? value.split(",").map((part) => part.trim()) : [value];
      query.push(...values.map((each) => `${name}=${encodeURIComponent(each)}`));
    }
  }
  return { url: root + path + (query.length ? `?${query.join("&")}` : ""), headers };
}

// Tells what a call did to the token, and keeps it so: a sign-in answers one, a sign-out ends it.
function tokenNote(operation, answer, text) {
  const change = answer.ok ? operation["x-alula-token"] : undefined;
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

// Returns what is sent for a form; a text that is empty is left out.
function formOf(inputs) {
  const form = new FormData();
  for (const { name, files, value } of inputs) {
    for (const file of files ?? []) form.append(name, file);
    if (!files && value !== "") form.append(name, value);
  }
  return form;
}

async function call(verb, path, operation, fields, body, output) {
  const { url, headers } = requestOf(path, fields);
  headers.Accept = "application/json";
  if (token.value) headers.Authorization = `Bearer ${token.value.trim()}`;
  if (typeof body === "string") headers["Content-Type"] = "application/json";
  output.replaceChildren(element("p", {}, "Waiting"));
  try {
    const answer = await fetch(url, {
      method: verb.toUpperCase(), headers, body,
    });
    let text = await answer.text();
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* shown as it came */ }
    output.replaceChildren(
      element("p", { className: answer.ok ? "status-good" : "status-bad" },
        element("strong", {}, `${answer.status}`), ` ${verb.toUpperCase()} ${url}`),
      element("pre", { tabIndex: 0 }, text || "(no content)"),
      ...[tokenNote(operation, answer, text)].filter(Boolean),
    );
  } catch (error) {
    output.replaceChildren(element("p", { className: "status-bad" }, `No answer: ${error.message}`));
  }
}

function answers(operation) {
  const list = element("ul");
  for (const [status, given] of Object.entries(operation.responses)) {
    const answer = resolved(given);
    const schema = answer.content?.["application/json"]?.schema;
    const type = schema ? `: ${schema.$ref?.split("/").pop() ?? typeOf(schema)}` : "";
    list.append(element("li", {}, element("code", {}, status), ` ${answer.description}${type}`));
  }
  return list;
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
  const form = element("form", {},
    operation.description && operation.description !== operation.summary
      ? element("p", {}, operation.description) : null,
    fields.length ? element("h3", {}, "Parameters") : null,
    element("div", { className: "fields" }, ...usual.flatMap(({ row }) => row)),
    operators.length ? element("details", {}, element("summary", {}, "Operators"),
      element("div", { className: "fields" }, ...operators.flatMap(({ row }) => row))) : null,
    body && element("h3", {}, element("label", { htmlFor: `${id}body` }, "Body")),
    body,
    upload ? element("h3", {}, "Form") : null,
    element("div", { className: "fields" }, ...inputs.flatMap((input) => [
      element("label", { htmlFor: input.id }, element("code", {}, input.name)), input,
    ])),
    element("button", { type: "submit" }, operation["x-alula-token"] ? operation.summary : "Send"),
    output,
    element("h3", {}, "Answers"),
    answers(operation),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call(verb, path, operation, fields, upload ? formOf(inputs) : body?.value, output);
  });
  const lock = operation.security ? element("span", { className: "lock" }, " (needs a token)") : null;
  return element("details", { className: "operation", id: operation.operationId },
    element("summary", {}, element("span", { className: "verb" }, verb.toUpperCase()),
      element("code", {}, path), ` ${operation.summary}`, lock),
    form);
}

function schemaView(name, schema) {
  return element("details", { className: "operation" },
    element("summary", {}, element("code", {}, name)),
    element("pre", { tabIndex: 0 }, JSON.stringify(schema, null, 2)));
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
  const sections = new Map(api.tags.map(({ name }, index) => [name, element("section",
    { id: `service-${index}` }, element("h2", {}, name))]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const verb of VERBS.filter((each) => item[each])) {
      const view = operationView(path, verb, item[verb], item.parameters ?? []);
      sections.get(item[verb].tags[0]).append(view);
    }
  }
  document.getElementById("index").replaceChildren(...[...sections].map(([name, section]) =>
    element("li", {}, element("a", { href: `#${section.id}` }, name))));
  const schemas = Object.entries(api.components.schemas);
  document.getElementById("services").replaceChildren(...sections.values(),
    element("details", { id: "schemas" }, element("summary", {}, "Schemas"),
      ...schemas.map(([name, schema]) => schemaView(name, schema))));
}

try {
  const answer = await fetch(root + description, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status} at ${root + description}`);
  api = await answer.json();
  show();
} catch (error) {
  document.getElementById("services").replaceChildren(
    element("p", { role: "alert" }, `The description could not be loaded: ${error.message}`));
}
