//! The OpenAPI document as one plain page: no script, nothing from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("reader.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Our own style and nothing else.
pub(crate) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
});

pub(crate) fn render(document: &Value) -> String {
    let mut page = String::new();
    let version = text(&document["info"]["version"]);
    page.push_str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    put(&mut page, format_args!("<title>Skep: the interface</title><style>{STYLE}</style></head>"));
    put(&mut page, format_args!("<body><main><h1>Skep {version}: the interface</h1>"));
    put(&mut page, format_args!("<p>{}</p>", text(&document["info"]["description"])));
    page.push_str(
        "<p>As a file for programs: <a href=\"/api/v1/openapi.json\">openapi.json</a>. Send \
         <code>Authorization: Bearer …</code> with a token of <code>skep token new</code>.</p>",
    );
    for (tag, operations) in by_tag(document) {
        put(&mut page, format_args!("<h2>{}</h2>", escape(tag)));
        for (method, path, operation) in operations {
            render_operation(&mut page, method, path, operation);
        }
    }
    page.push_str("<h2>Types</h2>");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        let name = escape(name);
        put(&mut page, format_args!("<details id=\"{name}\"><summary><code>{name}</code> "));
        put(&mut page, format_args!("<span>{}</span></summary>", text(&schema["description"])));
        put(&mut page, format_args!("<pre>{}</pre></details>", linked(schema)));
    }
    page.push_str("</main></body></html>\n");
    page
}

type Operation<'a> = (&'static str, &'a str, &'a Value);

fn by_tag(document: &Value) -> BTreeMap<&str, Vec<Operation<'_>>> {
    let mut tags: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    for (path, item) in fields(&document["paths"]) {
        for method in METHODS {
            let operation = &item[method];
            if !operation.is_null() {
                let tag = operation["tags"][0].as_str().unwrap_or("other");
                tags.entry(tag).or_default().push((method, path, operation));
            }
        }
    }
    tags
}

fn render_operation(page: &mut String, method: &str, path: &str, operation: &Value) {
    let (method, path) = (method.to_uppercase(), escape(path));
    put(page, format_args!("<details><summary><b>{method}</b><code>{path}</code> "));
    put(page, format_args!("<span>{}</span></summary>", text(&operation["summary"])));
    put(page, format_args!("<p>{}</p>", text(&operation["description"])));
    let roles = fields(&operation["x-skep-roles"]);
    if roles.is_empty() {
        page.push_str("<p>Open: needs no token.</p>");
    } else {
        let roles = roles.iter().map(|(role, reach)| format!("{} {}", escape(role), text(reach)));
        put(page, format_args!("<p>Roles: {}</p>", roles.collect::<Vec<_>>().join(", ")));
    }
    render_parameters(page, &operation["parameters"]);
    for (kind, content) in fields(&operation["requestBody"]["content"]) {
        put(page, format_args!("<p>Body, <code>{}</code>:</p>", escape(kind)));
        put(page, format_args!("<pre>{}</pre>", linked(&content["schema"])));
    }
    page.push_str("<table>");
    for (status, response) in fields(&operation["responses"]) {
        put(page, format_args!("<tr><th>{}</th><td>", escape(status)));
        put(page, format_args!("{}", text(&response["description"])));
        for (kind, content) in fields(&response["content"]) {
            put(page, format_args!(" <code>{}</code> ", escape(kind)));
            put(page, format_args!("<code>{}</code>", linked(&content["schema"])));
        }
        page.push_str("</td></tr>");
    }
    page.push_str("</table></details>");
}

fn render_parameters(page: &mut String, parameters: &Value) {
    let Some(parameters) = parameters.as_array() else { return };
    page.push_str("<table>");
    for parameter in parameters {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        put(page, format_args!("<tr><th><code>{name}</code> {place}</th>"));
        let (why, schema) = (text(&parameter["description"]), linked(&parameter["schema"]));
        put(page, format_args!("<td>{why} <code>{schema}</code></td></tr>"));
    }
    page.push_str("</table>");
}

/// A schema as JSON, with references that lead to their type.
fn linked(schema: &Value) -> String {
    let shown = match fields(schema).len() {
        0 | 1 => schema.to_string(),
        _ => serde_json::to_string_pretty(schema).unwrap_or_default(),
    };
    let mut html = String::new();
    let mut rest = shown.as_str();
    while let Some((before, after)) = rest.split_once("\"#/components/schemas/") {
        let (name, after) = after.split_once('"').unwrap_or((after, ""));
        let name = escape(name);
        put(&mut html, format_args!("{}<a href=\"#{name}\">{name}</a>", escape(before)));
        rest = after;
    }
    html + &escape(rest)
}

fn fields(value: &Value) -> Vec<(&str, &Value)> {
    let entries = value.as_object().into_iter().flat_map(Map::iter);
    entries.map(|(name, value)| (name.as_str(), value)).collect()
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

fn put(page: &mut String, piece: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = page.write_fmt(piece);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_in_the_document_becomes_markup() {
        let evil = "<script>alert(\"'&1\")</script>";
        let operation = json!({
            "tags": [evil], "summary": evil, "description": evil, "x-skep-roles": {evil: evil},
            "parameters": [{"name": evil, "in": evil, "description": evil, "schema": {"x": evil}}],
            "requestBody": {"content": {evil: {"schema": {"$ref": evil}}}},
            "responses": {evil: {"description": evil, "content": {evil: {"schema": evil}}}},
        });
        let page = render(&json!({
            "info": {"version": evil, "description": evil},
            "paths": {evil: {"get": operation}},
            "components": {"schemas": {evil: {"description": evil}}},
        }));
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;"));
    }
}
