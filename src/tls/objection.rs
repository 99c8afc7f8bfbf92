//! Why TLS with a host failed, in words for users.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What is the matter with the host, as the end of a sentence about it.
pub fn objection(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(error) => of_tls(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection in place of TLS: perhaps it does not speak TLS on this port".to_owned()
        }
        None => format!("TLS with it failed ({error})"),
    }
}

fn of_tls(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::NoCertificatesPresented => "it has no certificate".to_owned(),
        // Plain HTTP, SSH and the like: their first byte is no kind of a TLS record.
        Error::InvalidMessage(_) => {
            "it does not speak TLS on this port: perhaps it is plain HTTP, or TLS is on another port"
                .to_owned()
        }
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )
        | Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "it speaks only versions of TLS that are too old (before 1.2)".to_owned()
        }
        Error::PeerIncompatible(_)
        | Error::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity) => {
            "it has no cipher in common with ai-jail, or wants a certificate of the client's".to_owned()
        }
        Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "it knows no host of this name".to_owned()
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied,
        ) => "it wants a certificate of the client's, and ai-jail has none".to_owned(),
        Error::AlertReceived(AlertDescription::InternalError) => {
            "it ended TLS for an error of its own".to_owned()
        }
        other => format!("TLS with it failed ({other})"),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    let said = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::UnknownIssuer => {
            "its certificate is signed by nobody whom this machine trusts (SSL_CERT_FILE adds an authority, set where you start \
             ai-jail), or a certificate between is missing"
        }
        CertificateError::Revoked => "its certificate was revoked",
        CertificateError::BadEncoding => "its certificate cannot be read",
        CertificateError::BadSignature => "the signature of its certificate is wrong",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not one of a server"
        }
        // webpki's word for an authority's certificate in the place of a server's.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is self-signed, or that of an authority: it needs one that an authority has signed, which \
             SSL_CERT_FILE adds where you start ai-jail"
        }
        other => return format!("its certificate is refused ({other})"),
    };
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_rustls::rustls::{InvalidMessage, OtherError};

    use super::*;

    #[test]
    fn what_adds_an_authority_is_said_to_be_outside() {
        for why in [
            CertificateError::UnknownIssuer,
            CertificateError::Other(OtherError(Arc::new(io::Error::other(CaUsedAsEndEntity)))),
        ] {
            let said = objection(&io::Error::other(Error::InvalidCertificate(why)));
            let named = said.find("SSL_CERT_FILE").unwrap();
            assert!(said[named..].contains("where you start ai-jail"), "{said}");
        }
    }

    #[test]
    fn no_name_of_the_librarys_is_said() {
        let tls = |error: Error| io::Error::other(error);
        for (error, want) in [
            (
                tls(Error::InvalidMessage(InvalidMessage::InvalidContentType)),
                "does not speak TLS on this port",
            ),
            (tls(Error::AlertReceived(AlertDescription::ProtocolVersion)), "too old"),
            (tls(Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13)), "too old"),
            (tls(Error::AlertReceived(AlertDescription::HandshakeFailure)), "no cipher in common"),
            (tls(Error::AlertReceived(AlertDescription::UnrecognisedName)), "no host of this name"),
            (tls(Error::AlertReceived(AlertDescription::CertificateRequired)), "certificate of the client's"),
            (tls(Error::InvalidCertificate(CertificateError::BadEncoding)), "cannot be read"),
            (io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof"), "closed the connection"),
        ] {
            let said = objection(&error);
            assert!(said.contains(want) && !said.contains("TLS with it failed"), "{said}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the certificate is an authority's")]
    struct CaUsedAsEndEntity;
}
