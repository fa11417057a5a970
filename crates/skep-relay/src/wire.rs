//! What the two wires differ in: where they are asked, and what a request may hold.
//!
//! These are lists of what is understood. Vendors add to their wires: fields by which they reach
//! for hosts, tools that they run themselves, tools that stand in the middle of a conversation.
//! Whatever is not listed is refused before they see it.

use skep_core::provider::RawEndpoint;
use skep_core::relay::RelayWire;

#[derive(Debug)]
pub(crate) struct WireRules {
    pub paths: &'static [(&'static str, RawEndpoint)],
    pub queries: Words,
    /// Of the request itself.
    pub fields: Words,
    /// Fields that hold what was said.
    pub conversation: Words,
    /// The field that says how long the answer may be.
    pub limit: &'static str,
    /// Every `type` in what was said.
    pub types: Words,
    /// The type of tools that are told apart by their name alone.
    pub plain_tool: &'static str,
    /// A tool without a type is one of these.
    pub untyped_tools: bool,
}

/// What is listed, with blanks between.
#[derive(Debug)]
pub(crate) struct Words(&'static str);

impl Words {
    pub fn hold(&self, word: &str) -> bool {
        self.0.split_ascii_whitespace().any(|listed| listed == word)
    }
}

pub(crate) fn rules(wire: RelayWire) -> &'static WireRules {
    match wire {
        RelayWire::Anthropic => &ANTHROPIC,
        RelayWire::Responses => &RESPONSES,
    }
}

const ANTHROPIC: WireRules = WireRules {
    paths: &[
        ("/v1/messages", RawEndpoint::Messages),
        ("/v1/messages/count_tokens", RawEndpoint::CountTokens),
    ],
    queries: Words("beta=true"),
    // Without those that lead out (`mcp_servers`, `container`), cost another price
    // (`service_tier`, `speed`, `inference_geo`) or ask another model.
    fields: Words(
        "model messages system tools tool_choice max_tokens stream stop_sequences \
            temperature top_k top_p thinking output_config context_management cache_control \
            diagnostics metadata",
    ),
    conversation: Words("messages system"),
    limit: "max_tokens",
    // Without a source of the type `url` or `file`: the vendor would fetch it.
    types: Words(
        "text image document search_result thinking redacted_thinking tool_use tool_result \
            tool_reference tool_addition tool_removal tool_definition base64 content ephemeral \
            char_location page_location content_block_location search_result_location",
    ),
    plain_tool: "custom",
    untyped_tools: true,
};

const RESPONSES: WireRules = WireRules {
    paths: &[("/v1/responses", RawEndpoint::Responses)],
    queries: Words(""),
    // Without those that lead to what the vendor keeps (`previous_response_id`, `conversation`,
    // `prompt`), go on without us (`background`) or cost another price (`service_tier`).
    fields: Words(
        "model input instructions tools tool_choice parallel_tool_calls max_tool_calls \
            max_output_tokens stream stream_options temperature top_p reasoning text truncation \
            include store prompt_cache_key prompt_cache_retention safety_identifier \
            client_metadata metadata user",
    ),
    conversation: Words("input instructions"),
    limit: "max_output_tokens",
    types: Words(
        "message input_text output_text refusal input_image input_file reasoning \
            summary_text reasoning_text text function_call function_call_output \
            custom_tool_call custom_tool_call_output local_shell_call local_shell_call_output \
            exec tool_search_call tool_search_output additional_tools compaction \
            compaction_summary context_compaction encrypted_content agent_message",
    ),
    plain_tool: "function",
    untyped_tools: false,
};

impl WireRules {
    pub fn endpoint(&self, path: &str) -> Option<RawEndpoint> {
        self.paths.iter().find(|(known, _)| *known == path).map(|(_, endpoint)| *endpoint)
    }
}
