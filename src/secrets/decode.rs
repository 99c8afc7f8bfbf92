//! What form the secret of a file has.

/// The form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decode {
    /// None in particular.
    Plain,
    /// A JSON Web Token.
    Jwt,
}
