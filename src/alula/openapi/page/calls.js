// Calls what a description describes: addresses, forms, commands for a terminal, streams.

import { resolved } from "./schemas.js";

const LONGEST_TEXT = 200_000; // characters of a stream that stay on the page

// Returns address and headers of a call. What the fields of a free query hold is taken as it is.
export function requestOf(root, path, fields) {
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

// Returns what is sent for a form; a text that is empty is left out.
export function formOf(inputs) {
  const form = new FormData();
  for (const { name, files, value } of inputs) {
    for (const file of files ?? []) form.append(name, file);
    if (!files && value !== "") form.append(name, value);
  }
  return form;
}

// Returns the same call as a command for a terminal. The token is a variable there.
export function curlOf(verb, url, headers, { body, inputs = [], needsToken = false }) {
  const quoted = (value) => `'${value.replaceAll("'", "'\\''")}'`;
  const method = verb === "get" ? "" : `-X ${verb.toUpperCase()} `;
  const lines = [`curl ${method}${quoted(new URL(url, location.href).href)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (needsToken) lines.push('-H "Authorization: Bearer $TOKEN"');
  for (const { name, files, value } of inputs) {
    if (files || value !== "") lines.push(`-F ${quoted(files ? `${name}=@${files[0]?.name ?? "file.txt"}` : `${name}=${value}`)}`);
  }
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(compact(body))}`);
  return lines.join(" \\\n  ");
}

function compact(json) {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch {
    return json;
  }
}

// Returns whether a response goes on until somebody stops it.
export function isStream(response) {
  const type = response.headers.get("Content-Type") ?? "";
  return response.ok && /^(text\/event-stream|application\/jsonl)/.test(type);
}

// Writes the text of a stream into an element, until it ends.
export async function read(response, into) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    into.textContent = (into.textContent + part.value).slice(-LONGEST_TEXT);
    into.scrollTop = into.scrollHeight;
  }
}

// Returns a text as people read it: JSON in lines, anything else as it came.
export function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
