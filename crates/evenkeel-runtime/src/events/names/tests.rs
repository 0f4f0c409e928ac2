use super::*;

fn is_uuid(name: &str) -> bool {
    let dashes: Vec<usize> = name.match_indices('-').map(|(at, _)| at).collect();
    name.len() == 36
        && dashes == [8, 13, 18, 23]
        && name.as_bytes()[14] == b'4'
        && matches!(name.as_bytes()[19], b'8' | b'9' | b'a' | b'b')
        && is_subdomain(name)
}

#[test]
fn ev_003_a_name_is_the_object_name_and_the_time_or_a_uuid() {
    assert_eq!(event_name("test-pod", 105_999_103_295_324_396, 0), "test-pod.178959f726d80ec");
    assert_eq!(event_name("10.0.0.1", 255, 0), "10.0.0.1.ff");
    for odd in ["", "Upper", "with space", "a:b", "-a", "é", &"x".repeat(250)] {
        for random in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let name = event_name(odd, 105_999_103_295_324_396, random);
            assert!(is_uuid(&name), "{odd:?} became {name:?}");
        }
    }
}

#[test]
fn truncation_keeps_whole_characters() {
    assert_eq!(cut("abc", 3), "abc");
    assert_eq!(cut("abcd", 3), "abc");
    assert_eq!(cut("aéé", 4), "aé");
    assert_eq!(cut("é", 1), "");
}
