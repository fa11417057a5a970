#![allow(clippy::unwrap_used)]
use super::*;

fn shown(html: &str, form: PageForm) -> RenderedPage {
    let url = Url::parse("https://docs.example.org/guide/start.html?q=1").unwrap();
    render(html, &url, form).unwrap()
}

const PAGE: &str = r##"<!doctype html><html><head><title> The
  guide </title><style>p { color: red }</style><script>alert("x")</script></head>
<body><h1>Start</h1><p>Read <a href="../next#top">the <b>next</b></a> page,
or <a href="javascript:alert(1)">not</a>.</p><ul><li>one</li><li>two <code>x &lt; y</code></li></ul>
<pre><code>a  = 1
b  = 2</code></pre><img src="/logo.png" alt="logo"><p hidden>unseen words</p>
<noscript>no script</noscript><template><p>unseen, too</p></template><svg><text>drawn</text></svg>
<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table></body></html>"##;

#[test]
fn web_pages_become_markdown() {
    let page = shown(PAGE, PageForm::Markdown);
    assert_eq!((page.title.as_str(), page.deep), ("The guide", false));
    let wanted = [
        "# Start",
        "[the **next**](https://docs.example.org/next#top)",
        "`x < y`",
        "a  = 1\nb  = 2",
        "![logo](https://docs.example.org/logo.png)",
    ];
    for wanted in wanted {
        assert!(page.text.contains(wanted), "{wanted} is not in:\n{}", page.text);
    }
    for unwanted in ["alert", "color", "unseen", "no script", "drawn", "javascript"] {
        assert!(!page.text.contains(unwanted), "{unwanted} is in:\n{}", page.text);
    }
}

#[test]
fn web_pages_become_text() {
    let page = shown(PAGE, PageForm::Text);
    let wanted = "Start\n\nRead the next page, or not.\n\n- one\n- two x < y\n\n\
                  a  = 1\nb  = 2\n\nk\tv\na\t1";
    assert_eq!(page.text, wanted);
}

#[test]
fn web_parts_that_people_do_not_see_are_left_out() {
    let unseen = [
        "<p style='display:none'>x</p>",
        "<p style='color: red; DISPLAY : None !important'>x</p>",
        "<div style='visibility: hidden'><p>x</p></div>",
        "<span style='font-size:0px'>x</span>",
        "<span style='opacity: 0'>x</span>",
        "<dialog>x</dialog>",
    ];
    for html in unseen {
        for form in [PageForm::Markdown, PageForm::Text] {
            assert_eq!(shown(html, form).text, "", "{html}");
        }
    }
    for html in ["<p style='display:block;opacity:0.5'>x</p>", "<dialog open>x</dialog>"] {
        assert_eq!(shown(html, PageForm::Text).text, "x", "{html}");
    }
}

#[test]
fn web_links_are_relative_to_the_base_of_the_page() {
    let html = r#"<base href="https://other.example/deep/"><a href="x">x</a>"#;
    assert_eq!(shown(html, PageForm::Markdown).text, "[x](https://other.example/deep/x)");
}

/// Each would overflow the stack, fill the memory or take hours where nothing bounded it.
#[test]
fn web_pages_made_to_hurt_are_bounded() {
    let deep = format!("{}end of it{}", "<div>".repeat(3_000), "</div>".repeat(3_000));
    let lists = "<ul><li>".repeat(3_000);
    let quotes = "<blockquote>".repeat(3_000);
    let templates = "<template>".repeat(3_000);
    for html in [&deep, &lists, &quotes, &templates] {
        for form in [PageForm::Markdown, PageForm::Text] {
            let url = Url::parse("https://example.org/").unwrap();
            // Broken off, or without what lies too deep; never anything else.
            if let Ok(page) = render(html, &url, form) {
                assert!(page.deep || page.text.is_empty(), "{:.80}", html);
            }
        }
    }
    let fonts: String = (0..2_000).map(|n| format!("<font size={n}>")).collect();
    let formatting = format!("<p>{fonts}</p>{}", "<p>x</p>".repeat(20_000));
    // By its elements, or on a busy machine by the time they take.
    assert!(tree::parse(&formatting).is_err());
    let many = "<i></i>".repeat(250_000);
    assert_eq!(tree::parse(&many).err(), Some(Excess::Elements));
}
