//! The shell: look up, plan, execute, record how the pod uses its disks.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::Key;
use flyball_api::pod::Volume;
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::mounts::MountingPod;
use super::plan::{MountedDisk, View, plan, usages};
use super::registry::Registry;
use crate::disk::{Attacher, Disk, Lookup};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<MountingPod>>,
    pub(super) lookup: Lookup,
    pub(super) registry: Arc<Mutex<Registry>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key) else {
            self.registry.lock().forget(key);
            return Ok(Next::Settled);
        };
        let disks = self.disks(&pod);
        let is_unknown = |volume: &&Volume| {
            self.lookup.is_pending(&pod.metadata, volume)
                || self.lookup.is_untranslatable(&pod.metadata, volume)
        };
        let unknown = pod.volumes.iter().filter(is_unknown).map(|volume| volume.name.clone()).collect();
        let plan = {
            let mut registry = self.registry.lock();
            let pods = |key: &Key| self.pods.store().get(key).map(|pod| ObjectRef::of(&*pod));
            let view = View { pod: &pod, disks: &disks, unknown: &unknown, registry: &registry, pods: &pods };
            let (plan, usages) = (plan(&view), usages(&view));
            for (disk, usage) in usages {
                registry.record(&disk, key, usage);
            }
            plan
        };
        self.cx.executor(key).about(ObjectRef::of(&*pod)).events(&self.events).execute(plan).await
    }
}

impl Controller {
    fn disks(&self, pod: &MountingPod) -> BTreeMap<SmolStr, MountedDisk> {
        let disk = |volume: &Volume| {
            // FlexVolume drivers do not support the mount option, so their volumes cannot conflict.
            let disk = self.lookup.disk_of(&pod.metadata, volume).filter(|disk| disk.flex().is_none())?;
            Some((volume.name.clone(), self.mounted(&disk)))
        };
        pod.volumes.iter().filter_map(disk).collect()
    }

    fn mounted(&self, disk: &Disk) -> MountedDisk {
        let driver = disk.driver().map(|volume| volume.driver.clone()).unwrap_or_default();
        let has_mount_option = match disk.attacher {
            Attacher::Node => true,
            Attacher::Flex(_) => false,
            Attacher::Driver { .. } => {
                self.lookup.driver_of(disk).is_some_and(|driver| driver.spec.se_linux_mount == Some(true))
            }
        };
        MountedDisk { name: disk.name.clone(), driver, has_mount_option }
    }
}
