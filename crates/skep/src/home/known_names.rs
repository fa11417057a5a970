//! The engines, tools and local model that configuration files may refer to.

use super::local::LocalModel;

/// The names that files may refer to, given by the composition root.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownNames {
    pub engines: Vec<String>,
    pub tools: Vec<String>,
    /// Other names of tools, which models alone use.
    pub aliases: Vec<String>,
    /// Used if nothing else selects a model.
    pub local: LocalModel,
}

impl KnownNames {
    pub fn new(engines: &[&str], tools: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            engines: owned(engines),
            tools: owned(tools),
            aliases: Vec::new(),
            local: LocalModel::NotLooked,
        }
    }
}
