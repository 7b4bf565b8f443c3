//! Why a policy cannot be verified.

/// Why nothing can be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unverifiable {
    /// γσ is 1 or more.
    #[error("γ = {0} times the largest row sum is not below 1, expected a discount factor below 1")]
    Discount(f64),
    /// Γ is empty.
    #[error("the policy has no vectors")]
    Empty,
    /// Vectors of another model.
    #[error("vectors of {found} states, expected {expected}")]
    Entries {
        /// Entries of a vector.
        found: u32,
        /// |S|.
        expected: u32,
    },
    /// An action that the model does not have.
    #[error("vector {vector} has action {found}, expected one below {actions}")]
    UnknownAction {
        /// The vector.
        vector: usize,
        /// Its action.
        found: u32,
        /// |A|.
        actions: u32,
    },
    /// A controller without nodes, or without one to begin in.
    #[error("the controller has no nodes to begin in")]
    NoNodes,
    /// Lists of a controller have other lengths.
    #[error("the controller has {found} {what}, expected {expected}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The number that its nodes need.
        expected: usize,
    },
    /// An action that the model does not have, or a node that the controller does not have.
    #[error("the controller has {what} {found}, expected one below {below}")]
    Unknown {
        /// Node or action.
        what: &'static str,
        /// Its number.
        found: u32,
        /// The number of them.
        below: u32,
    },
    /// Some run of a plan is shorter than the horizon.
    #[error("node {node} ends after {steps} steps, expected {horizon}")]
    Ends {
        /// The number of the node in its file.
        node: u32,
        /// Its steps.
        steps: u32,
        /// T.
        horizon: u32,
    },
    /// A node ends, and there is no horizon.
    #[error("node {0} ends, expected a horizon, or a controller that goes on")]
    Ending(u32),
    /// A value is infinite or NaN.
    #[error("vector {0} has a value that is not finite")]
    NotFinite(usize),
    /// Someone asked to stop.
    #[error("interrupted")]
    Interrupted,
}
