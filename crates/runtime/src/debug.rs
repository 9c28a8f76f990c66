//! Pages that controllers show about themselves, under `/debug/controllers/<name>/`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugPage {
    pub content_type: &'static str,
    pub body: String,
}

/// Renders a page of one controller, from the page's name and a function that returns the values of a query parameter.
pub type ShowDebug = dyn Fn(&str, &dyn Fn(&str) -> Vec<String>) -> Option<DebugPage> + Send + Sync;

/// The pages of all controllers. Cheap to clone; all clones share the pages.
#[derive(Clone, Default)]
pub struct DebugPages {
    by_controller: Arc<Mutex<BTreeMap<&'static str, Arc<ShowDebug>>>>,
}

impl DebugPages {
    /// Sets the function for the pages of `controller`, which show its `state` for as long as that exists. They do not keep it:
    /// a controller holds its context, and the context these pages.
    pub fn offer<S: Send + Sync + 'static>(
        &self,
        controller: &'static str,
        state: &Arc<S>,
        show: impl Fn(&S, &str, &dyn Fn(&str) -> Vec<String>) -> Option<DebugPage> + Send + Sync + 'static,
    ) {
        let state = Arc::downgrade(state);
        let show: Arc<ShowDebug> = Arc::new(move |page, query| show(&*state.upgrade()?, page, query));
        self.by_controller.lock().insert(controller, show);
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
