//! The parts of the schemas of Kubernetes and of the MPI operator that the book uses, written after their documentation:
//!
//! - MPIJob v2beta1: <https://pkg.go.dev/github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1>
//! - Job, Service and pods: <https://kubernetes.io/docs/reference/kubernetes-api/>
//!
//! Unknown fields, values outside of an enumeration and missing required fields are errors, as they are for `kubectl apply` with strict
//! validation.
#![allow(dead_code)]

use std::collections::BTreeMap;

use serde::Deserialize;

/// Checks a manifest. Returns its kind.
pub fn check(text: &str) -> Result<&'static str, String> {
    #[derive(Deserialize)]
    struct Any {
        kind: String,
    }
    fn read<T: for<'t> Deserialize<'t>>(text: &str) -> Result<T, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }
    match &*read::<Any>(text)?.kind {
        "MPIJob" => read::<MpiJob>(text).map(|_| "MPIJob"),
        "Job" => read::<Job>(text).map(|_| "Job"),
        "Service" => read::<Service>(text).map(|_| "Service"),
        kind => Err(format!("unknown kind {kind}")),
    }
}

macro_rules! objects {
    ($($name:ident { $($required:ident: $of:ty,)* $(; $($optional:ident: $maybe:ty,)*)? })*) => {$(
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct $name {
            $($required: $of,)*
            $($(#[serde(default)] $optional: Option<$maybe>,)*)?
        }
    )*};
}

macro_rules! constants {
    ($($name:ident { $($variant:ident = $text:literal),* })*) => {$(
        #[derive(Deserialize)]
        enum $name {
            $(#[serde(rename = $text)] $variant,)*
        }
    )*};
}

constants! {
    V2Beta1 { Only = "kubeflow.org/v2beta1" }
    BatchV1 { Only = "batch/v1" }
    V1 { Only = "v1" }
    CleanPodPolicy { All = "All", Running = "Running", None = "None" }
    Implementation { OpenMpi = "OpenMPI", Intel = "Intel", Mpich = "MPICH" }
    CreationPolicy { AtStartup = "AtStartup", WaitForWorkersReady = "WaitForWorkersReady" }
    ReplicaRestart { Never = "Never", OnFailure = "OnFailure" }
    PodRestart { Never = "Never", OnFailure = "OnFailure", Always = "Always" }
    CompletionMode { Indexed = "Indexed", NonIndexed = "NonIndexed" }
    Medium { Memory = "Memory" }
    Headless { None = "None" }
}

objects! {
    Metadata { name: String,; labels: BTreeMap<String, String>, annotations: BTreeMap<String, String>, namespace: String, }
    MpiJob { api_version: V2Beta1, kind: String, metadata: Metadata, spec: MpiJobSpec, }
    MpiJobSpec {
        mpi_replica_specs: Replicas,;
        slots_per_worker: u32, run_policy: RunPolicy, ssh_auth_mount_path: String, mpi_implementation: Implementation,
        launcher_creation_policy: CreationPolicy, run_launcher_as_worker: bool,
    }
    RunPolicy {;
        clean_pod_policy: CleanPodPolicy, backoff_limit: u32, ttl_seconds_after_finished: u32, active_deadline_seconds: u64,
        suspend: bool, managed_by: String,
    }
    Replica { template: Template,; replicas: u32, restart_policy: ReplicaRestart, }
    Job { api_version: BatchV1, kind: String, metadata: Metadata, spec: JobSpec, }
    JobSpec { template: Template,; completions: u32, parallelism: u32, completion_mode: CompletionMode, backoff_limit: u32, }
    Service { api_version: V1, kind: String, metadata: Metadata, spec: ServiceSpec, }
    Template { spec: PodSpec,; metadata: Metadata, }
    PodSpec { containers: Vec<Container>,; restart_policy: PodRestart, subdomain: String, volumes: Vec<Volume>, }
    Container {
        name: String, image: String,;
        command: Vec<String>, args: Vec<String>, env: Vec<Env>, resources: Resources, volume_mounts: Vec<VolumeMount>,
        security_context: SecurityContext,
    }
    SecurityContext {; run_as_user: u32, }
    Resources {; limits: BTreeMap<String, u32>, }
    VolumeMount { name: String, mount_path: String, }
    Env { name: String,; value: String, value_from: EnvSource, }
    EnvSource { field_ref: FieldRef, }
    FieldRef { field_path: String, }
    Volume { name: String,; persistent_volume_claim: Claim, empty_dir: EmptyDir, }
    Claim { claim_name: String, }
    EmptyDir {; medium: Medium, }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Replicas {
    launcher: Replica,
    worker: Replica,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ServiceSpec {
    selector: BTreeMap<String, String>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Headless,
    publish_not_ready_addresses: bool,
}
