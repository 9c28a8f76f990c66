//! What several families of controllers share: who owns an object, who must look when it changes, which pod can best be spared, how pods are
//! made in growing batches, and how all that is told to users. Knowledge about one kind is not here.

pub mod claim;
pub mod disruption;
pub mod gather;
pub mod go_text;
pub mod index;
pub mod labelled;
pub mod moment;
pub mod nodeaffinity;
pub mod pods;
pub mod revisions;
pub mod served;
pub mod slow_start;
pub mod spare;
pub mod wake;
