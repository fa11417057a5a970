//! A model server on this machine, used if no model is configured. Only local ports are asked, and
//! only for their list of models.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use skep_guard::http;

use super::environment::Variables;

/// Where the well-known servers listen.
const USUAL: [(&str, &str); 3] = [
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
];
/// Names other addresses to look at, separated by commas, or `none`.
const VARIABLE: &str = "SKEP_LOCAL_SERVERS";
/// A closed port answers at once; a server that takes longer than this would hold up the start.
const PATIENCE: Duration = Duration::from_millis(200);
/// A list of models is a few kilobytes.
const ANSWER_BYTES: usize = 256 << 10;

/// The result of the search for a local server.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LocalModel {
    #[default]
    NotLooked,
    Absent,
    Found(LocalServer),
}

/// A server that lists models, and the one of them that is used.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalServer {
    pub name: String,
    /// With `/v1`.
    pub url: String,
    pub model: String,
}

/// Asks all addresses in parallel; the first of the list that answers wins.
pub async fn look(variables: Variables<'_>) -> LocalModel {
    let named = variables(VARIABLE);
    let places: Vec<(String, String)> = match named.as_deref() {
        Some("none") => return LocalModel::Absent,
        Some(list) => list.split(',').map(str::trim).map(named_place).collect(),
        None => USUAL.map(|(name, url)| (name.to_owned(), url.to_owned())).to_vec(),
    };
    let answers = join_all(places.into_iter().map(|(name, url)| async move {
        let model = tokio::time::timeout(PATIENCE, first_model(&url)).await.ok()??;
        Some(LocalServer { name, url, model })
    }));
    answers.await.into_iter().flatten().next().map_or(LocalModel::Absent, LocalModel::Found)
}

fn named_place(url: &str) -> (String, String) {
    ("a model server".to_owned(), url.trim_end_matches('/').to_owned())
}

async fn first_model(url: &str) -> Option<String> {
    let client = http::client(url, PATIENCE).ok()?;
    let mut answer = client.get(&format!("{url}/models")).send().await.ok()?;
    if !answer.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.ok()? {
        body.extend_from_slice(&piece);
        if body.len() > ANSWER_BYTES {
            return None;
        }
    }
    choose(&body)
}

#[derive(Deserialize)]
struct ModelList {
    object: String,
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
    object: String,
}

/// The first chat model of a valid list of models: any other server may use these ports.
fn choose(body: &[u8]) -> Option<String> {
    let models: ModelList = serde_json::from_slice(body).ok()?;
    let right = models.object == "list" && models.data.iter().all(|model| model.object == "model");
    let talks = |id: &str| !id.is_empty() && !id.to_ascii_lowercase().contains("embed");
    models.data.into_iter().map(|model| model.id).find(|id| right && talks(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_models_is_one() {
        let listed = r#"{"object":"list","data":[{"id":"nomic-embed-text","object":"model"},
            {"id":"qwen3:8b","object":"model","owned_by":"library"}]}"#;
        let cases = [
            (listed, Some("qwen3:8b")),
            (r#"{"object":"list","data":[]}"#, None),
            (r#"{"object":"list","data":[{"id":"x","object":"file"}]}"#, None),
            (r#"{"data":[{"id":"x","object":"model"}]}"#, None),
            ("<html>It works!</html>", None),
            ("[]", None),
            ("", None),
        ];
        for (body, chosen) in cases {
            assert_eq!(choose(body.as_bytes()).as_deref(), chosen, "{body}");
        }
    }
}
