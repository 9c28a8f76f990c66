//! Pages that controllers show about themselves, under `/debug/controllers/<name>/`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugPage {
    pub content_type: &'static str,
    pub body: String,
}

/// Answers for the pages of one controller: by the page's name, and a look-up of query parameters.
pub type ShowDebug = dyn Fn(&str, &dyn Fn(&str) -> Vec<String>) -> Option<DebugPage> + Send + Sync;

/// The pages of all controllers. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct DebugPages {
    by_controller: Arc<Mutex<BTreeMap<&'static str, Arc<ShowDebug>>>>,
}

impl DebugPages {
    /// Lets `show` answer for `controller`, instead of whoever did before.
    pub fn offer(
        &self,
        controller: &'static str,
        show: impl Fn(&str, &dyn Fn(&str) -> Vec<String>) -> Option<DebugPage> + Send + Sync + 'static,
    ) {
        self.by_controller.lock().insert(controller, Arc::new(show));
    }

    /// A page, if that controller runs and has it.
    pub fn show(
        &self,
        controller: &str,
        page: &str,
        query: &dyn Fn(&str) -> Vec<String>,
    ) -> Option<DebugPage> {
        let show = self.by_controller.lock().get(controller).cloned()?;
        show(page, query)
    }
}

impl std::fmt::Debug for DebugPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_controller.lock().keys()).finish()
    }
}
