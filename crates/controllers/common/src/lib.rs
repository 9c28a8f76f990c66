//! What several families of controllers share: adoption and release, triggers of owners, indexes, the ranking of pods for
//! deletion, pod creation, revisions, the CA of the API server. Knowledge about one controller is not here.

pub mod adoption;
pub mod discovery;
pub mod disruption;
pub mod go_text;
pub mod index;
pub mod informer_lag;
pub mod labelled;
pub mod nodeaffinity;
pub mod pods;
pub mod revisions;
pub mod served;
pub mod server_ca;
pub mod spare;
pub mod wake;
