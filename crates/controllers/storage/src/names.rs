//! Words that users and other components see: phases, annotations, finalizers.

/// A volume or a claim that has the other.
pub(crate) const BOUND: &str = "Bound";
/// A claim without a volume.
pub(crate) const PENDING: &str = "Pending";
/// A claim whose volume is gone for good.
pub(crate) const LOST: &str = "Lost";
/// A volume that claims may take.
pub(crate) const AVAILABLE: &str = "Available";
/// A volume whose claim is gone.
pub(crate) const RELEASED: &str = "Released";
/// A volume that could not be reclaimed.
pub(crate) const FAILED: &str = "Failed";

/// The resource that volumes are measured in.
pub(crate) const STORAGE: &str = "storage";

/// On a claim: it has had its volume.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: a controller, not a user, has chosen the other.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: who made it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim or volume: the CSI driver that has taken over from a plugin in the tree.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a claim: who is to make a volume.
pub(crate) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The older name of [`PROVISIONER`]; both are written.
pub(crate) const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node for whose pod a volume is to be made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim or volume: the class, before it was a field.
pub(crate) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: whether claims without a class get it. The second is the older name.
pub(crate) const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// On a volume: how large its file system still is.
pub(crate) const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Keeps a volume until a plugin in the tree has deleted what is behind it.
pub(crate) const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// The same for an external provisioner.
pub(crate) const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
