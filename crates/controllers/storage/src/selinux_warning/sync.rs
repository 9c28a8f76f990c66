//! The shell: look up, note, tell.

use std::sync::Arc;

use flyball_api::Key;
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Next, Reconcile, SyncError};
use parking_lot::Mutex;

use super::book::{Book, Usage};
use super::mounts::{Mount, MountingPod};
use crate::disk::{Attacher, Disk, Lookup};

pub(super) struct Controller {
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<MountingPod>>,
    pub(super) lookup: Lookup,
    pub(super) book: Arc<Mutex<Book>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key) else {
            self.book.lock().forget(key);
            return Ok(Next::Settled);
        };
        for (name, mount) in &pod.mounts {
            match mount {
                Mount::Several => {
                    let message = format!(
                        "Volume \"{name}\" is mounted twice with different SELinux labels inside this pod"
                    );
                    self.events.warning(&ObjectRef::of(&*pod), "MultipleSELinuxLabels", message);
                }
                Mount::Label(label) => {
                    let volume = pod.volumes.iter().find(|volume| volume.name == *name);
                    let Some(disk) = volume.and_then(|volume| self.lookup.disk_of(&pod.metadata, volume))
                    else {
                        continue;
                    };
                    let usage = Usage::new(label, &pod.change_policy, self.is_mounted_with_label(&disk));
                    self.note(key, &disk, usage);
                }
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// Whether nodes can mount a disk with a label.
    fn is_mounted_with_label(&self, disk: &Disk) -> bool {
        match disk.by {
            Attacher::Node => true,
            Attacher::Driver { .. } => {
                self.lookup.driver_of(disk).is_some_and(|driver| driver.spec.se_linux_mount == Some(true))
            }
        }
    }

    fn note(&self, key: &Key, disk: &Disk, usage: Usage) {
        let driver = disk.driver().map(|volume| volume.driver.as_str()).unwrap_or_default();
        let conflicts = self.book.lock().note(&disk.name, driver, key, usage);
        for conflict in conflicts {
            // A conflict that ended with one of the pods is none.
            if let Some(pod) = self.pods.store().get(&conflict.pod) {
                self.events.normal(&ObjectRef::of(&*pod), conflict.about.reason(), conflict.message());
            }
        }
    }
}
