//! Phases, annotations and finalizers that users and other components read.

/// The phase of a claim and a volume that are bound to each other.
pub(crate) const BOUND: &str = "Bound";
/// The phase of a claim without a volume.
pub(crate) const PENDING: &str = "Pending";
/// The phase of a claim whose volume is gone.
pub(crate) const LOST: &str = "Lost";
/// The phase of a volume that can be bound.
pub(crate) const AVAILABLE: &str = "Available";
/// The phase of a volume whose claim is gone.
pub(crate) const RELEASED: &str = "Released";
/// The phase of a volume that could not be reclaimed.
pub(crate) const FAILED: &str = "Failed";

/// The resource in which the size of volumes is given.
pub(crate) const STORAGE: &str = "storage";

/// On a claim: binding is complete.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: a controller, not a user, has chosen the other.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: its provisioner.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim or volume: the CSI driver that has replaced its in-tree plugin.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a claim: the provisioner that is to create a volume.
pub(crate) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The older name of [`PROVISIONER`]; both are written.
pub(crate) const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node that the scheduler has selected for its pod.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim or volume: the class, before it was a field.
pub(crate) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: whether claims without a class get it. The second is the older name.
pub(crate) const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// On a volume: the size of its file system before an expansion.
pub(crate) const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Keeps a volume until an in-tree plugin has deleted its storage.
pub(crate) const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// The same for an external provisioner.
pub(crate) const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
