/** The light or dark theme: that of JupyterLab or VS Code, else of the browser; light on paper. Reports changes. */

function isDark(): boolean {
  const wanted = document.body.dataset.tdTheme; // a setting of the JupyterLab extension
  if (wanted === "light" || wanted === "dark") return wanted === "dark";
  const jupyter = document.body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false";
  if (document.body.classList.contains("vscode-dark") || document.body.classList.contains("vscode-high-contrast"))
    return true;
  if (document.body.classList.contains("vscode-light")) return false;
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

/** `onChange` gets `now` if no frame comes before the page is seen: it is about to be printed. */
export function watchTheme(root: HTMLElement, onChange: (now: boolean) => void): () => void {
  const apply = (): void => {
    root.dataset.tdTheme = isDark() ? "dark" : "light";
    onChange(false);
  };
  const print = (): void => {
    root.dataset.tdTheme = "light";
    onChange(true);
  };
  // JupyterLab sets the attribute first and its style sheet arrives later: look again once it has.
  let timer = 0;
  const later = (): void => {
    apply();
    window.clearTimeout(timer);
    timer = window.setTimeout(apply, 300);
  };
  root.dataset.tdTheme = isDark() ? "dark" : "light";
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", apply);
  const observer = new MutationObserver(later);
  observer.observe(document.body, {
    attributes: true,
    attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name", "data-td-theme"],
  });
  window.addEventListener("beforeprint", print);
  window.addEventListener("afterprint", apply);
  return () => {
    window.removeEventListener("beforeprint", print);
    window.removeEventListener("afterprint", apply);
    media.removeEventListener("change", apply);
    observer.disconnect();
    window.clearTimeout(timer);
  };
}
