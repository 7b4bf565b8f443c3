//! What a launcher tells the processes that it starts, by environment variables.

use std::env;

/// The place of this process among those that a launcher started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the launcher.
    pub by: &'static str,
    /// This process, from 0.
    pub rank: u32,
    /// The number of processes.
    pub size: u32,
    /// This process among those of its node, from 0, if the launcher says it.
    pub local_rank: Option<u32>,
}

/// The variables of a launcher.
struct Variables {
    by: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
}

/// Every launcher, those first that others start: `mpirun` inside a job of Slurm sets the variables of both.
const LAUNCHERS: [Variables; 4] = [
    Variables {
        by: "Open MPI's mpirun",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    },
    Variables { by: "mpiexec", rank: "PMI_RANK", size: "PMI_SIZE", local_rank: "MPI_LOCALRANKID" },
    Variables { by: "srun", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", local_rank: "SLURM_LOCALID" },
    Variables { by: "torchrun", rank: "RANK", size: "WORLD_SIZE", local_rank: "LOCAL_RANK" },
];

impl Launch {
    /// The place of this process; `None` if it is alone.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        Self::of(|name| env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        let of = |launcher: &Variables| {
            let (rank, size) = (number(launcher.rank)?, number(launcher.size)?);
            let launch = Self { by: launcher.by, rank, size, local_rank: number(launcher.local_rank) };
            (rank < size).then_some(launch)
        };
        LAUNCHERS.iter().find_map(of).filter(|launch| launch.size > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::of(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn ranks_come_from_the_innermost_launcher() {
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_LOCALID", "1")];
        assert_eq!(found(&slurm), Some(Launch { by: "srun", rank: 3, size: 8, local_rank: Some(1) }));
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let both = [&slurm[..], &open_mpi].concat();
        assert_eq!(found(&both), Some(Launch { by: "Open MPI's mpirun", rank: 1, size: 2, local_rank: None }));
        let torch = [("RANK", "0"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0")];
        assert_eq!(found(&torch), Some(Launch { by: "torchrun", rank: 0, size: 4, local_rank: Some(0) }));
    }

    #[test]
    fn one_process_is_alone() {
        // A batch script of Slurm is no step.
        for variables in [
            &[][..],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")],
            &[("PMI_RANK", "0"), ("PMI_SIZE", "1")],
            &[("RANK", "x"), ("WORLD_SIZE", "4")],
            &[("RANK", "4"), ("WORLD_SIZE", "4")],
        ] {
            assert_eq!(found(variables), None, "{variables:?}");
        }
    }
}
