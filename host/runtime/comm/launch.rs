//! What a launcher tells the processes that it starts, by environment variables.

use std::env;

/// The place of this process among those that were started together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the launcher.
    pub by: &'static str,
    /// This process, from 0.
    pub rank: u32,
    /// The number of processes.
    pub size: u32,
    /// This process among those of its node, from 0, if the launcher says it.
    pub local_rank: Option<u32>,
    /// What connects the processes.
    pub connection: Connection,
    /// What all processes of the launch know, and no stranger: the ranks that meet without MPI show it. May be empty.
    pub token: String,
}

/// What connects the processes of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// MPI, whose launcher it is.
    Mpi,
    /// NCCL. The first process listens at this HOST:PORT until all have come. `None` if the launcher does not say where.
    Nccl(Option<String>),
}

/// The variables of a launcher.
struct Variables {
    by: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// A variable that tells this launcher from others with the same variables.
    mark: Option<&'static str>,
    /// Whether it is the launcher of an MPI library.
    mpi: bool,
}

/// Every launcher, those first that others start: `mpirun` inside a job of Slurm sets the variables of both, and so does
/// `torchrun`, which starts several processes in each task. Scripts export the last ones in processes of any launcher.
const LAUNCHERS: [Variables; 5] = [
    Variables { by: "torchrun", mark: Some("TORCHELASTIC_RUN_ID"), ..EXPORTED },
    Variables {
        by: "Open MPI's mpirun",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        mark: None,
        mpi: true,
    },
    Variables {
        by: "mpiexec",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        mark: None,
        mpi: true,
    },
    Variables {
        by: "srun",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        mark: None,
        mpi: true,
    },
    EXPORTED,
];

/// The variables of PyTorch's launchers and operators.
const EXPORTED: Variables = Variables {
    by: "a launcher (RANK and WORLD_SIZE)",
    rank: "RANK",
    size: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    mark: None,
    mpi: false,
};

/// Names the port at which the ranks meet, in place of the one after `MASTER_PORT`.
const PORT: &str = "WARPKOV_PORT";

/// The token of the launch. By default, it is the identifier of torchrun's run.
const TOKEN: &str = "WARPKOV_TOKEN";

impl Launch {
    /// The place of this process; `None` if it is alone.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        Self::detect(|name| env::var(name).ok(), |_| true)
    }

    /// The place of this process by the variables of a launcher that needs no MPI.
    #[must_use]
    pub fn without_mpi() -> Option<Self> {
        Self::detect(|name| env::var(name).ok(), |launcher| !launcher.mpi)
    }

    /// A process that the user placed, with the HOST:PORT at which the first listens, or TOKEN@HOST:PORT; `None` if it is alone.
    #[must_use]
    pub fn given(rank: u32, size: u32, master: &str) -> Option<Self> {
        let (token, address) = match master.rsplit_once('@') {
            Some((token, address)) => (token.to_owned(), address),
            None => (token(|name| env::var(name).ok()), master),
        };
        let connection = Connection::Nccl(Some(address.to_owned()));
        let local_rank = env::var("LOCAL_RANK").ok().and_then(|text| text.parse().ok());
        (size > 1).then_some(Self { by: "options", rank, size, local_rank, connection, token })
    }

    /// Why variables of a launcher name no place among ranks, if they do not: a number that is none, or a rank that is not below the
    /// number of ranks.
    #[must_use]
    pub fn wrong_environment() -> Option<String> {
        Self::wrong(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The variable in which the launcher gives this process its rank.
    pub(super) fn rank_variable(&self) -> &'static str {
        LAUNCHERS.iter().find(|launcher| launcher.by == self.by).map_or(EXPORTED.rank, |launcher| launcher.rank)
    }

    fn wrong(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        LAUNCHERS.iter().filter(|launcher| launcher.mark.is_none()).find_map(|launcher| {
            let number = |name: &'static str| {
                let text = variable(name)?;
                Some(text.parse::<u32>().map_err(|_| format!("{name}={text}: expected a number")))
            };
            match (number(launcher.rank), number(launcher.size)) {
                (Some(Err(wrong)), _) | (_, Some(Err(wrong))) => Some(wrong),
                (Some(Ok(rank)), Some(Ok(size))) if rank >= size => {
                    let expected =
                        if size == 0 { "expected ranks".to_owned() } else { format!("expected at most {}", size - 1) };
                    Some(format!("{}={rank} of {}={size}: {expected}", launcher.rank, launcher.size))
                }
                (None, Some(Ok(size))) if size > 1 => {
                    Some(format!("{}={size} without {}: expected both", launcher.size, launcher.rank))
                }
                (Some(Ok(rank)), None) if rank > 0 => {
                    Some(format!("{}={rank} without {}: expected both", launcher.rank, launcher.size))
                }
                _ => None,
            }
        })
    }

    fn detect(variable: impl Fn(&str) -> Option<String>, admits: impl Fn(&Variables) -> bool) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<u32>().ok();
        // The port itself is that of the launcher.
        let port = || variable(PORT).or_else(|| Some(number("MASTER_PORT")?.checked_add(1)?.to_string()));
        let master = || {
            let (host, port) = (variable("MASTER_ADDR").filter(|host| !host.is_empty())?, port()?);
            Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
        };
        let of = |launcher: &Variables| {
            let (rank, size) = (number(launcher.rank)?, number(launcher.size)?);
            let connection = if launcher.mpi { Connection::Mpi } else { Connection::Nccl(master()) };
            let (local_rank, token) = (number(launcher.local_rank), token(&variable));
            let launch = Self { by: launcher.by, rank, size, local_rank, connection, token };
            let marked = launcher.mark.is_none_or(|mark| variable(mark).is_some());
            (rank < size && marked && admits(launcher)).then_some(launch)
        };
        LAUNCHERS.iter().find_map(of).filter(|launch| launch.size > 1)
    }
}

/// The token of these variables.
fn token(variable: impl Fn(&str) -> Option<String>) -> String {
    variable(TOKEN).or_else(|| variable("TORCHELASTIC_RUN_ID")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<Launch> {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Launch::detect(variable, |_| true)
    }

    #[test]
    fn wrong_places_are_told() {
        let wrong = |variables: &[(&str, &str)]| {
            Launch::wrong(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(wrong(&[("RANK", "2"), ("WORLD_SIZE", "2")]).unwrap(), "RANK=2 of WORLD_SIZE=2: expected at most 1");
        assert_eq!(wrong(&[("RANK", "0"), ("WORLD_SIZE", "0")]).unwrap(), "RANK=0 of WORLD_SIZE=0: expected ranks");
        assert_eq!(wrong(&[("RANK", "abc")]).unwrap(), "RANK=abc: expected a number");
        assert_eq!(wrong(&[("RANK", "0"), ("WORLD_SIZE", "-1")]).unwrap(), "WORLD_SIZE=-1: expected a number");
        assert_eq!(
            wrong(&[("PMI_RANK", "3"), ("PMI_SIZE", "3")]).unwrap(),
            "PMI_RANK=3 of PMI_SIZE=3: expected at most 2"
        );
        assert_eq!(wrong(&[("WORLD_SIZE", "4")]).unwrap(), "WORLD_SIZE=4 without RANK: expected both");
        assert_eq!(
            wrong(&[("OMPI_COMM_WORLD_RANK", "1")]).unwrap(),
            "OMPI_COMM_WORLD_RANK=1 without OMPI_COMM_WORLD_SIZE: expected both"
        );
        for right in
            [&SLURM[..], &TORCH, &[("RANK", "0")], &[("WORLD_SIZE", "1")], &[("RANK", "0"), ("WORLD_SIZE", "1")], &[]]
        {
            assert_eq!(wrong(right), None);
        }
    }

    const SLURM: [(&str, &str); 3] = [("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_LOCALID", "1")];
    const TORCH: [(&str, &str); 5] =
        [("RANK", "5"), ("WORLD_SIZE", "16"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "node-0"), ("MASTER_PORT", "29500")];

    #[test]
    fn ranks_come_from_the_innermost_launcher() {
        let connection = Connection::Mpi;
        let slurm = Launch {
            by: "srun",
            rank: 3,
            size: 8,
            local_rank: Some(1),
            connection: connection.clone(),
            token: String::new(),
        };
        assert_eq!(found(&SLURM), Some(slurm.clone()));
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let inner =
            Launch { by: "Open MPI's mpirun", rank: 1, size: 2, local_rank: None, connection, token: String::new() };
        assert_eq!(found(&[&SLURM[..], &open_mpi].concat()), Some(inner));
        // Exported by a script under srun.
        assert_eq!(found(&[&SLURM[..], &TORCH].concat()), Some(slurm));
        // One torchrun in each task of srun.
        let mark = [("TORCHELASTIC_RUN_ID", "none")];
        let inner = found(&[&SLURM[..], &TORCH, &mark].concat()).unwrap();
        assert_eq!((inner.by, inner.rank, inner.size, inner.local_rank), ("torchrun", 5, 16, Some(1)));
    }

    #[test]
    fn ranks_without_mpi_meet_beside_the_port_of_their_launcher() {
        let at = |more: &[(&str, &str)]| found(&[more, &TORCH].concat()).unwrap().connection;
        let nccl = |address: &str| Connection::Nccl(Some(address.to_owned()));
        assert_eq!(at(&[]), nccl("node-0:29501"));
        assert_eq!(at(&[(PORT, "4000")]), nccl("node-0:4000"));
        assert_eq!(at(&[("MASTER_ADDR", "fd00::1")]), nccl("[fd00::1]:29501"));
        for missing in [("MASTER_ADDR", ""), ("MASTER_PORT", ""), ("MASTER_PORT", "x")] {
            assert_eq!(at(&[missing]), Connection::Nccl(None), "{missing:?}");
        }
        assert_eq!(at(&[("MASTER_PORT", ""), (PORT, "7")]), nccl("node-0:7"));
    }

    #[test]
    fn options_are_a_launch() {
        let launch = Launch::given(1, 4, "a:7").unwrap();
        assert_eq!((launch.rank, launch.size), (1, 4));
        assert_eq!(launch.connection, Connection::Nccl(Some("a:7".to_owned())));
        assert_eq!(Launch::given(0, 1, "a:7"), None);
        let launch = Launch::given(1, 4, "my@token@[::1]:7").unwrap();
        assert_eq!((launch.connection, &*launch.token), (Connection::Nccl(Some("[::1]:7".to_owned())), "my@token"));
    }

    #[test]
    fn the_token_is_that_of_the_user_or_of_the_launcher() {
        let of = |more: &[(&str, &str)]| found(&[more, &TORCH].concat()).unwrap().token;
        let run = ("TORCHELASTIC_RUN_ID", "run-5");
        assert_eq!([of(&[]), of(&[run]), of(&[run, (TOKEN, "own")])], ["", "run-5", "own"]);
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
