use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use skep_guard::{http, socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A folder whose socket path is longer than a socket address can hold.
fn deep_folder(home: &tempfile::TempDir) -> PathBuf {
    let deep = home.path().join("d".repeat(90)).join("e".repeat(90));
    std::fs::create_dir_all(&deep).unwrap();
    deep
}

#[tokio::test]
async fn a_client_reaches_a_deep_socket_that_only_its_owner_may_open() {
    let home = tempfile::tempdir().unwrap();
    let run = deep_folder(&home);
    let listener = socket::bind(&run).unwrap();
    let path = run.join(socket::SOCKET_NAME);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let owner = socket::owner(home.path()).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let checks = (
            socket::peer_is(&stream, owner).unwrap(),
            socket::peer_is(&stream, owner + 1).unwrap(),
        );
        let mut request = [0_u8; 1024];
        let count = stream.read(&mut request).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        stream.write_all(answer).await.unwrap();
        (checks, String::from_utf8_lossy(&request[..count]).into_owned())
    });
    let client = http::local_client(&run).unwrap();
    let answer = client.get("http://skep/api/v1/health").send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), "hi");
    let (checks, request) = server.await.unwrap();
    assert_eq!(checks, (true, false));
    assert!(request.starts_with("GET /api/v1/health HTTP/1.1\r\n"), "{request}");
}

#[tokio::test]
async fn a_stale_socket_is_replaced_but_another_file_is_not() {
    let home = tempfile::tempdir().unwrap();
    drop(socket::bind(home.path()).unwrap());
    drop(socket::bind(home.path()).unwrap());
    let path = home.path().join(socket::SOCKET_NAME);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "notes").unwrap();
    assert!(socket::bind(home.path()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
}
