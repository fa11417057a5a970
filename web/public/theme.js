// Before the first paint, so that no other theme is seen: the one this browser was told to use.
try {
    const theme = localStorage.getItem("skep.theme");
    if (theme) document.documentElement.dataset.theme = theme;
} catch {
    // Nothing is kept here; signing in says so.
}
