use super::TerminalSize;

#[test]
fn rcm_006_a_size_has_capitalised_keys_and_a_newline() {
    assert_eq!(TerminalSize { width: 80, height: 24 }.encode(), "{\"Width\":80,\"Height\":24}\n");
}

#[test]
fn rcm_006_sizes_are_decoded_wherever_messages_are_split() {
    let mut received = b"{\"Width\":1,\"Height\":2}\n{\"Width\":3,\"He".to_vec();
    assert_eq!(TerminalSize::decode(&mut received), Some(TerminalSize { width: 1, height: 2 }));
    assert_eq!(TerminalSize::decode(&mut received), None);
    received.extend_from_slice(b"ight\":4}{\"Width\":65536,\"Height\":1}{\"Width\":5,\"Height\":6}");
    assert_eq!(TerminalSize::decode(&mut received), Some(TerminalSize { width: 3, height: 4 }));
    // A value that is no uint16 is skipped.
    assert_eq!(TerminalSize::decode(&mut received), Some(TerminalSize { width: 5, height: 6 }));
    assert_eq!(received, b"");
}
