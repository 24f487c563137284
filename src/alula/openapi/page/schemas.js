// What the page tells of the schemas of a description: types in words, and examples.

let whole = {};

// Says which description the references of schemas lead into.
export function use(description) {
  whole = description;
}

export function resolved(schema) {
  for (let times = 0; schema?.$ref && times < 10; times += 1) {
    schema = schema.$ref.slice(2).split("/").reduce((part, name) => part?.[name], whole);
  }
  return schema ?? {};
}

// Returns the name of a schema that stands among the others, and otherwise its type in words.
export function nameOf(schema) {
  return schema.$ref?.split("/").pop() ?? typeOf(schema);
}

export function typeOf(given, depth = 0) {
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
//
// `name` is the property that has it, which tells an address from a password. With `whole`, an
// object has all its properties, otherwise those that it needs.
export function example(given, { name = "", all = false, depth = 0 } = {}) {
  const schema = resolved(given);
  const known = schema.default ?? schema.const ?? schema.examples?.[0] ?? schema.enum?.[0];
  if (known !== undefined && known !== null) return known;
  const choices = schema.anyOf ?? schema.oneOf;
  const next = (part, property = name) => example(part, { name: property, all, depth: depth + 1 });
  if (choices) return next(choices.find((each) => resolved(each).type !== "null"));
  const type = [schema.type].flat().find((each) => each !== "null");
  if (depth > 5) return null;
  if (type === "array") return all && schema.items ? [next(schema.items)] : [];
  if (type === "string") return text(schema, name);
  if (type === "integer" || type === "number") return number(schema, type);
  if (type === "boolean") return false;
  if (type !== "object" && !schema.properties) return type === undefined ? {} : null;
  const properties = schema.properties ?? {};
  const names = all ? Object.keys(properties) : schema.required ?? Object.keys(properties);
  return Object.fromEntries(names.map((each) => [each, next(properties[each], each)]));
}

function number({ minimum, exclusiveMinimum, multipleOf }, type) {
  const step = multipleOf ?? (type === "integer" ? 1 : 0.5);
  if (minimum !== undefined) return Math.ceil(minimum / step) * step;
  if (exclusiveMinimum === undefined) return 0;
  return (Math.floor(exclusiveMinimum / step) + 1) * step;
}

const NOW = new Date().toISOString();
const BY_FORMAT = {
  "date-time": NOW, date: NOW.slice(0, 10), time: NOW.slice(11, 19), duration: "PT1H",
  email: "ada@example.com", uri: "https://example.com/", "uri-reference": "/a", hostname: "example.com",
  uuid: "0198c0de-0000-7000-8000-000000000001", ipv4: "192.0.2.1", ipv6: "2001:db8::1",
  password: "correct horse battery",
};
const BY_NAME = [
  [/e-?mail/i, BY_FORMAT.email], [/password/i, BY_FORMAT.password], [/(url|link|website)$/i, BY_FORMAT.uri],
  [/phone/i, "+15550100"], [/^(user|nick|login)_?name$/i, "ada"], [/name$/i, "Ada"], [/title$/i, "A title"],
];
// For patterns: what most of them want.
const TRIED = [
  "ada", "Ada", "ADA", "a-b", "a_b", "a1", "A1", "1", "12", "123", "1234", "12345", "123456", "12345678",
  "1.0", "1.0.0", "AB", "abc", "ABC", "ABC-123", "AB12", "#1a2b3c", "2026", "2026-01-31", "12:30", "en", "en-US",
  "+15550100", "ada@example.com", "https://example.com/", "000000000000000000000001",
  "00000000000000000000000000000001", BY_FORMAT.uuid,
];

function text(schema, name) {
  const { minLength = 0, maxLength = Infinity, pattern } = schema;
  const fits = (value) => value.length >= minLength && value.length <= maxLength
    && (!pattern || matches(pattern, value));
  const usual = BY_FORMAT[schema.format] ?? BY_NAME.find(([known]) => known.test(name))?.[1] ?? "text";
  const long = usual.padEnd(minLength, " and more").slice(0, maxLength);
  return [usual, long, ...TRIED].find(fits) ?? long;
}

function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern of another language
  }
}
