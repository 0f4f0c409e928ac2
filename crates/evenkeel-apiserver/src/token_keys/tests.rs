use super::*;

const ISSUER: &str = "https://issuer";

fn token(keys: &TokenKeys) -> String {
    keys.sign(&json!({"iss": ISSUER, "sub": "robot"})).unwrap()
}

#[test]
fn aut_5_a_key_verifies_its_own_tokens_only() {
    let (keys, other) = (TokenKeys::default(), TokenKeys::default());
    let token = token(&keys);
    assert_eq!(keys.verify(&token), Ok(()));
    assert_eq!(keys.verify(&token), Ok(()), "from memory");
    assert_eq!(other.verify(&token), Err(SignatureFault::UnknownKey), "before it has a key");
    other.key_set().unwrap();
    assert_eq!(other.verify(&token), Err(SignatureFault::UnknownKey));
    assert_eq!(TokenKeys::claims(&token, ISSUER).unwrap()["sub"], "robot");
    assert_eq!(TokenKeys::claims(&token, "https://other"), None);
    for form in ["", "a", "a.b", "a.b.c", &format!("{token}.d")] {
        assert_eq!(TokenKeys::claims(form, ISSUER), None, "{form}");
    }
}

#[test]
fn aut_5_an_algorithm_that_is_not_the_keys_is_refused() {
    let keys = TokenKeys::default();
    let token = token(&keys);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    for algorithm in ["none", "HS256", "RS256", "ES384"] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": algorithm}).to_string());
        for signature in [signature, ""] {
            let forged = format!("{header}.{claims}.{signature}");
            assert_eq!(keys.verify(&forged), Err(SignatureFault::Mismatch), "{algorithm}");
        }
        // The public key as a secret.
        let mac = Hmac::<Sha256>::new_from_slice(keys.pair().unwrap().key.public_key_raw()).unwrap();
        let mac = mac.chain_update(format!("{header}.{claims}")).finalize().into_bytes();
        let forged = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(mac));
        assert_eq!(keys.verify(&forged), Err(SignatureFault::Mismatch), "{algorithm}");
    }
}

#[test]
fn aut_5_tokens_of_an_old_data_directory_stay_valid() {
    let legacy = [7; 64];
    let keys = TokenKeys::from_pem(&TokenKeys::generate_pem().unwrap(), Some(legacy)).unwrap();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(json!({"alg": "HS256", "typ": "JWT"})), encode(json!({"iss": ISSUER})));
    let mac = Hmac::<Sha256>::new(&legacy.into()).chain_update(&signed).finalize().into_bytes();
    let old = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac));
    assert_eq!(keys.verify(&old), Ok(()));
    assert_eq!(keys.verify(&format!("{old}A")), Err(SignatureFault::Mismatch));
    assert_eq!(TokenKeys::default().verify(&old), Err(SignatureFault::Mismatch));
    assert!(token(&keys).starts_with(&URL_SAFE_NO_PAD.encode("{\"alg\":\"ES256\"")[..16]));
}

#[test]
fn aut_5_a_key_survives_as_text() {
    let pem = TokenKeys::generate_pem().unwrap();
    let (first, second) = (TokenKeys::from_pem(&pem, None).unwrap(), TokenKeys::from_pem(&pem, None).unwrap());
    assert_eq!(second.verify(&token(&first)), Ok(()));
    assert_eq!(first.key_set().unwrap(), second.key_set().unwrap());
    let public = &first.key_set().unwrap()["keys"][0];
    let coordinates: Vec<u8> =
        ["x", "y"].iter().flat_map(|name| URL_SAFE_NO_PAD.decode(public[*name].as_str().unwrap()).unwrap()).collect();
    assert_eq!(Some(&coordinates[..]), first.pair().unwrap().key.public_key_raw().get(1..));
    assert!(TokenKeys::from_pem("no key", None).is_err());
    assert_eq!(format!("{first:?}"), "TokenKeys([redacted])");
}

#[test]
fn aut_5_signatures_have_two_forms() {
    let mut numbers = [0; 64];
    for fill in [0u8, 1, 0x7f, 0x80, 0xff] {
        for zeros in [0, 1, 31, 32] {
            numbers[..zeros].fill(0);
            numbers[zeros..].fill(fill);
            let der = der_of(&numbers).unwrap();
            assert_eq!(numbers_of(&der), Some(numbers), "{der:?}");
        }
    }
    for der in [&b""[..], b"\x30\x00", b"\x30\x80\x02\x01\x01", b"\x02\x01\x01", b"\x30\x06\x02\x01\x01\x02\x02\x01"] {
        assert_eq!(numbers_of(der), None, "{der:?}");
    }
    assert_eq!(der_of(&[0; 63]), None);
}

#[test]
fn aut_5_the_memory_of_tokens_is_bounded() {
    let keys = TokenKeys::default();
    let tokens: Vec<String> = (0..3).map(|_| token(&keys)).collect();
    keys.known.lock().unwrap().extend((0..KNOWN_TOKENS).map(|number| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }));
    for token in &tokens {
        assert_eq!(keys.verify(token), Ok(()));
    }
    assert_eq!(keys.known.lock().unwrap().len(), 3);
}
