//! An engine that can neither take messages in while it streams nor be interrupted by one.

use std::sync::Arc;

use skep_core::engine::{Capabilities, Engine, TurnHandle, TurnRequest};
use skep_core::settings::AgentSettings;
use skep_engine::NativeEngine;

pub struct BluntEngine {
    native: Arc<NativeEngine>,
}

impl BluntEngine {
    pub fn new(native: Arc<NativeEngine>) -> Self {
        Self { native }
    }
}

impl Engine for BluntEngine {
    fn id(&self) -> &str {
        "blunt"
    }

    fn display_name(&self) -> &str {
        "Blunt"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: false,
            interrupt: false,
            ..self.native.capabilities()
        }
    }

    fn resolve_display_model(&self, agent: &AgentSettings) -> String {
        self.native.resolve_display_model(agent)
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        self.native.start(request)
    }
}
