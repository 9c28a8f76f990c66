//! What several families of controllers share: who owns a pod, which pod can best be spared, how pods are
//! made in growing batches, and how all that is told to users. Knowledge about one kind is not here.

pub mod claim;
pub mod index;
pub mod pods;
pub mod slow_start;
pub mod spare;
