// Before the first paint, so that no other theme is seen: the one this browser was told to use.
const theme = localStorage.getItem("skep.theme");
if (theme) document.documentElement.dataset.theme = theme;
