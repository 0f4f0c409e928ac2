//! [`ServingCertificate`]: a certificate from files, or one that is made while there are none.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;

#[cfg(feature = "certificates")]
use self::made::MadeCertificate;
use crate::tls::{CertificateWatcher, CertificateWatcherBuilder, CurrentPair, TlsError};

/// Keeps the certificate of a server current.
#[derive(Debug)]
pub(crate) enum ServingCertificate {
    Files(Box<CertificateWatcher>),
    #[cfg(feature = "certificates")]
    Made(MadeCertificate),
}

/// The files of a certificate, and where it goes.
#[derive(Clone, Debug)]
pub(super) struct CertificateFiles {
    directory: PathBuf,
    slot: CurrentPair,
    provider: Arc<CryptoProvider>,
}

impl ServingCertificate {
    /// Reads the files in a directory into a slot, or fills it with a made certificate if one of them is missing.
    pub(super) fn prepare(
        directory: PathBuf,
        slot: &CurrentPair,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let files = CertificateFiles { directory, slot: slot.clone(), provider: Arc::clone(provider) };
        if files.exist() {
            return Ok(ServingCertificate::Files(Box::new(files.watcher().load()?)));
        }
        #[cfg(feature = "certificates")]
        return Ok(ServingCertificate::Made(MadeCertificate::new(files, made::now())?));
        #[cfg(not(feature = "certificates"))]
        Err(TlsError::NoFiles { directory: files.directory })
    }

    /// Keeps the certificate current until the future is dropped.
    pub(crate) async fn run(self) {
        let watcher = match self {
            ServingCertificate::Files(watcher) => *watcher,
            #[cfg(feature = "certificates")]
            ServingCertificate::Made(mut made) => made.replaced().await,
        };
        watcher.run().await;
    }
}

impl CertificateFiles {
    fn exist(&self) -> bool {
        ["tls.crt", "tls.key"].iter().all(|name| self.directory.join(name).exists())
    }

    fn watcher(&self) -> CertificateWatcherBuilder {
        CertificateWatcher::builder(self.directory.join("tls.crt"), self.directory.join("tls.key"))
            .crypto_provider(Arc::clone(&self.provider))
            .slot(&self.slot)
    }
}

#[cfg(feature = "certificates")]
pub(super) mod made {
    //! A certificate for `localhost`, signed by itself.

    use std::time::Duration;

    use jiff::Timestamp;
    use rcgen::{
        CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
        PKCS_ECDSA_P256_SHA256, SerialNumber,
    };
    use tokio::time::{MissedTickBehavior, interval};
    use zeroize::Zeroizing;

    use super::CertificateFiles;
    use crate::tls::{CertificateWatcher, ServingPair, TlsError};

    /// How often files are looked for.
    const INTERVAL: Duration = Duration::from_secs(10);
    const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    /// Certificates are valid from an hour ago, because clocks differ.
    const BACKDATED: Duration = Duration::from_secs(60 * 60);

    /// Serves a made certificate until there are files.
    #[derive(Debug)]
    pub(crate) struct MadeCertificate {
        files: CertificateFiles,
        renew_at: Timestamp,
    }

    impl MadeCertificate {
        pub(in crate::secure) fn new(files: CertificateFiles, now: Timestamp) -> Result<Self, TlsError> {
            let mut made = MadeCertificate { files, renew_at: now };
            made.renew_if_due(now)?;
            let directory = made.files.directory.display();
            tracing::info!(%directory, "no serving certificate there; serving a made one for localhost");
            Ok(made)
        }

        /// Makes a new certificate once two thirds of the validity of the last are over. Returns whether it did.
        pub(in crate::secure) fn renew_if_due(&mut self, now: Timestamp) -> Result<bool, TlsError> {
            if now < self.renew_at {
                return Ok(false);
            }
            let pair = make(now, &self.files)?;
            let validity = pair.not_after().as_second() - pair.not_before().as_second();
            let renew_at = Timestamp::from_second(pair.not_before().as_second() + validity / 3 * 2);
            self.renew_at = renew_at.map_err(|error| setup(&error))?;
            self.files.slot.set(pair);
            Ok(true)
        }

        /// Returns the watcher of the files, once there are usable ones.
        pub(super) async fn replaced(&mut self) -> CertificateWatcher {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let files = self.files.clone();
                let load = move || files.exist().then(|| files.watcher().load());
                // An error means that the runtime shuts down.
                match tokio::task::spawn_blocking(load).await.ok().flatten() {
                    Some(Ok(watcher)) => return watcher,
                    Some(Err(error)) => {
                        let directory = self.files.directory.display();
                        tracing::warn!(%directory, %error, "the certificate on disk cannot be used; serving a made one");
                    }
                    None => {}
                }
                if let Err(error) = self.renew_if_due(now()) {
                    tracing::warn!(%error, "cannot renew the made serving certificate; serving the old one");
                }
            }
        }
    }

    /// Returns the time by which clients judge the certificate.
    #[expect(clippy::disallowed_methods, reason = "the edge: certificates are valid by the wall clock")]
    pub(super) fn now() -> Timestamp {
        Timestamp::now()
    }

    fn make(now: Timestamp, files: &CertificateFiles) -> Result<ServingPair, TlsError> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).map_err(|error| setup(&error))?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since_epoch.saturating_sub(BACKDATED);
        params.not_after = epoch + since_epoch.saturating_add(VALIDITY);
        let mut serial = [0_u8; 16];
        files.provider.secure_random.fill(&mut serial).map_err(|_| setup(&"no random numbers"))?;
        // A serial number is positive.
        serial[0] &= 0x7f;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| setup(&error))?;
        let certificate = params.self_signed(&key).map_err(|error| setup(&error))?.pem();
        let key = Zeroizing::new(key.serialize_pem());
        ServingPair::from_pem(certificate.as_bytes(), key.as_bytes(), &files.provider)
    }

    fn setup(error: &dyn std::fmt::Display) -> TlsError {
        TlsError::Setup { problem: error.to_string() }
    }
}
