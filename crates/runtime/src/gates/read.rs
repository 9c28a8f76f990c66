//! The feature gates that this code reads, and why the others have no effect.

/// Declares the enum with the names as upstream writes them.
macro_rules! gates {
    ($($name:ident,)*) => {
        /// A gate on which the behaviour of a controller, or of the manager, depends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gate { $($name,)* }

        impl Gate {
            pub const ALL: &[Gate] = &[$(Gate::$name,)*];

            pub fn named(name: &str) -> Option<Gate> {
                Self::ALL.iter().copied().find(|gate| gate.name() == name)
            }

            /// As `--feature-gates` takes it.
            pub const fn name(self) -> &'static str {
                match self { $(Gate::$name => stringify!($name),)* }
            }
        }
    };
}

gates! {
    APIServerIdentity,
    AllowParsingUserUIDFromCertAuth,
    CloudControllerManagerWatchBasedRoutesReconciliation,
    CloudControllerManagerWebhook,
    ClusterTrustBundle,
    ComponentFlagz,
    ComponentStatusz,
    ControllerManagerReleaseLeaderElectionLockOnExit,
    CoordinatedLeaderElection,
    DRAAdminAccess,
    DRADeviceTaintRules,
    DRADeviceTaints,
    DRAExtendedResource,
    DRAPrioritizedList,
    DRAResourcePoolStatus,
    DRAWorkloadResourceClaims,
    DeploymentReplicaSetTerminatingReplicas,
    DynamicResourceAllocation,
    GenericWorkload,
    HPAConfigurableTolerance,
    HPAScaleToZero,
    InOrderInformers,
    InPlacePodVerticalScaling,
    InformerResourceVersion,
    JobManagedBy,
    JobPodReplacementPolicy,
    LoggingAlphaOptions,
    LoggingBetaOptions,
    MaxUnavailableStatefulSet,
    MultiCIDRServiceAllocator,
    MutableSchedulingDirectivesForSuspendedJobs,
    OrderedNamespaceDeletion,
    PersistentVolumeClaimUnusedSinceTime,
    PodCertificateRequest,
    PodDeletionCost,
    PodLevelResources,
    PodObservedGenerationTracking,
    PreferSameTrafficDistribution,
    RecoverVolumeExpansionFailure,
    RemoteRequestHeaderUID,
    SELinuxChangePolicy,
    SELinuxMountReadWriteOncePod,
    SeparateTaintEvictionController,
    StatefulSetSemanticRevisionComparison,
    StorageVersionAPI,
    StorageVersionMigrator,
    TaintTolerationComparisonOperators,
    UnauthenticatedHTTP2DOSMitigation,
    VolumeAttributesClass,
    WatchListClient,
    WorkloadWithJob,
}

/// Stand for all gates of a stage.
pub(super) const GROUPS: [&str; 2] = ["AllAlpha", "AllBeta"];

const OTHERS: &str = "only other components read it";
const WRITES_SHOWN: &str = "a key is never synced before the cache shows what its last sync wrote";
const EVENTS_IN_ORDER: &str = "caches take the changes of a resource one by one, in the server's order";
const NO_CBOR: &str = "objects are JSON or protobuf";

/// Gates that nothing here reads, with the reason. Gates that are locked in every version that can be emulated, and the two
/// groups, are not listed.
#[rustfmt::skip]
pub(super) const UNREAD: &[(&str, &[&str])] = &[
    (WRITES_SHOWN, &["StaleControllerConsistencyDaemonSet", "StaleControllerConsistencyJob",
        "StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyStatefulSet"]),
    (EVENTS_IN_ORDER, &["AtomicFIFO", "InOrderInformersBatchProcess", "UnlockWhileProcessingFIFO"]),
    (NO_CBOR, &["CBORServingAndStorage", "ClientsAllowCBOR", "ClientsPreferCBOR"]),
    ("connections follow changes of the CA file and end with their client", &["ClientsAllowCARotation", "ClientsAllowTLSCacheGC"]),
    ("log lines always carry the fields of their sync", &["ContextualLogging"]),
    ("histograms have the classic format", &["NativeHistograms"]),
    (OTHERS, &[
        "APIResponseCompression", "APIServerTracing", "APIServingWithRoutine", "AggregatedDiscoveryRemoveBetaType",
        "AllowDNSOnlyNodeCSR", "AllowInsecureKubeletCertificateSigningRequests",
        "AllowOverwriteTerminationGracePeriodSeconds", "AllowServiceExternalIPs",
        "AllowUnsafeMalformedObjectDeletion", "AnonymousAuthConfigurableEndpoints", "AuthorizeNodeWithSelectors",
        "AuthorizePodWebsocketUpgradeCreatePermission", "AuthorizeWithSelectors", "CPUManagerPolicyAlphaOptions",
        "CPUManagerPolicyBetaOptions", "CRDObservedGenerationTracking", "CRIListStreaming",
        "CSIServiceAccountTokenSecrets", "CSIVolumeHealth", "ChangeContainerStatusOnKubeletRestart",
        "ClearingNominatedNodeNameAfterBinding", "ClusterTrustBundleProjection", "ConcurrentWatchObjectDecode",
        "ConsistentListFromCache", "ConstrainedImpersonation", "ContainerCheckpoint", "ContainerRestartRules",
        "ContainerStopSignals", "CrossNamespaceVolumeDataSource", "CustomCPUCFSQuotaPeriod",
        "DRAConsumableCapacity", "DRADeviceBindingConditions", "DRAListTypeAttributes",
        "DRANodeAllocatableResources", "DRAPartitionableDevices", "DRAResourceClaimDeviceStatus",
        "DRAResourceClaimGranularStatusAuthorization", "DRASchedulerFilterTimeout", "DeclarativeValidation",
        "DeclarativeValidationBeta", "DeclarativeValidationTakeover", "DetectCacheInconsistency",
        "DisableAllocatorDualWrite", "DisableCPUQuotaWithExclusiveCPUs", "DisableNodeKubeProxyVersion", "EnvFiles",
        "EventedPLEG", "ExecProbeTimeout", "ExtendWebSocketsToKubelet", "ExternalServiceAccountTokenSigner",
        "GangScheduling", "GitRepoVolumeDriver", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority",
        "HostnameOverride", "ImageMaximumGCAge", "ImageVolume", "ImageVolumeWithDigest",
        "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs",
        "InPlacePodVerticalScalingExclusiveMemory", "InPlacePodVerticalScalingInitContainers", "KMSv1",
        "KubeletCgroupDriverFromCRI", "KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages",
        "KubeletFineGrainedAuthz", "KubeletInUserNamespace", "KubeletPSI", "KubeletPodResourcesDynamicResources",
        "KubeletPodResourcesGet", "KubeletPodResourcesListUseActivePods", "KubeletRegistrationGetOnExistsOnly",
        "KubeletSeparateDiskGC", "KubeletServiceAccountTokenForCredentialProviders", "KubeletTracing",
        "ListFromCacheSnapshot", "LocalStorageCapacityIsolationFSQuotaMonitoring",
        "ManifestBasedAdmissionControlConfig", "MatchLabelKeysInPodTopologySpread",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge", "MemoryQoS", "MutableCSINodeAllocatableCount",
        "MutablePVNodeAffinity", "MutablePodResourcesForSuspendedJobs", "MutatingAdmissionPolicy",
        "NodeDeclaredFeatures", "NodeLogQuery", "NodeSwap", "NominatedNodeNameForExpectation", "OpenAPIEnums",
        "OpportunisticBatching", "PLEGOnDemandRelist", "PodAndContainerStatsFromCRI", "PodLevelResourceManagers",
        "PodLifecycleSleepAction", "PodLifecycleSleepActionAllowZero", "PodLogsQuerySplitStreams",
        "PodReadyToStartContainersCondition", "PodTopologyLabelsAdmission", "PodsAPI", "PortForwardWebsockets",
        "PreventStaticPodAPIReferences", "ProcMountType", "QOSReserved", "ReduceDefaultCrashLoopBackOffDecay",
        "RelaxedDNSSearchValidation", "RelaxedEnvironmentVariableValidation", "RelaxedServiceNameValidation",
        "ReloadKubeletClientCAFile", "ReloadKubeletServerCertificateFile", "ResilientWatchCacheInitialization",
        "ResourceHealthStatus", "ResourceHealthStatusMessage", "RestartAllContainersOnContainerExits",
        "RotateKubeletServerCertificate", "RuntimeClassInImageCriApi", "SELinuxMount", "SchedulerAsyncAPICalls",
        "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ", "SchedulerQueueingHints", "SeparateCacheWatchRPC",
        "ServiceAccountNodeAudienceRestriction", "ServiceCIDRStatusFieldWiping", "ShardedListAndWatch",
        "SizeBasedListCostEstimate", "StorageCapacityScoring", "StorageNamespaceIndex", "StorageVersionHash",
        "StreamingCollectionEncodingToJSON", "StreamingCollectionEncodingToProtobuf", "StrictIPCIDRValidation",
        "StructuredAuthenticationConfiguration", "StructuredAuthenticationConfigurationEgressSelector",
        "StructuredAuthenticationConfigurationJWKSMetrics", "SupplementalGroupsPolicy", "SystemdWatchdog",
        "TokenRequestServiceAccountUIDValidation", "TopologyAwareWorkloadScheduling",
        "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions",
        "TranslateStreamCloseWebsocketRequests", "UnknownVersionInteroperabilityProxy",
        "UserNamespacesHostNetworkSupport", "UserNamespacesSupport", "VolumeLimitScaling",
        "WatchCacheInitializationPostStartHook", "WatchList", "WinDSR", "WinOverlay", "WindowsCPUAndMemoryAffinity",
        "WindowsGracefulNodeShutdown", "WindowsHostNetwork", "WorkloadAwarePreemption",
    ]),
];
