//! Secrets (TLS-1, TLS-3, TLS-4, TLS-8): a fake inside, the real one put in outside.
//!
//! A [`Sentinel`] is as long as the [`SecretValue`] that it stands for and differs from it in letters and digits only, so
//! that it changes neither lengths nor escapes wherever it is replaced. A [`Vault`] has all of them; [`Outgoing`] puts
//! values into a request where they are bound, and a [`Stream`] does it in a body, as it takes them out of an answer's.

mod automaton;
mod basic;
mod conceal;
mod decode;
mod file;
mod forms;
mod group;
mod jwt;
mod login;
mod places;
mod sentinel;
mod shapes;
mod stream;
mod structure;
mod value;
mod vault;
mod whole;

pub use conceal::{Concealed, Guess, token_like, without_tokens};
pub use decode::Decode;
pub use file::{FileError, FileMask, MaskedFile, mask_file};
pub use jwt::jwt;
pub use places::{Place, Places};
pub use sentinel::{Sentinel, ShapeError, sentinel};
pub use shapes::looks_like_token;
pub use stream::{Noted, Stream};
pub use structure::{Structure, more_than_a_token};
pub use value::{MAX_VALUE, SecretValue, Seed, ValueError};
pub use vault::{Channel, Outgoing, Secret, Vault};
