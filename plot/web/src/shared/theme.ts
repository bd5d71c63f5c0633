// The switch between light and dark. This script is in the head of every page, so that
// the first paint already uses the chosen colours.

const root = document.documentElement;
const store = "hare-theme";

// dark returns whether the page is dark.
function dark(): boolean {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Pages opened from files and browsers with strict settings may have no storage: the
// choice then lasts until the page is closed.
function remembered(): string | null {
  try {
    return localStorage.getItem(store);
  } catch {
    return null;
  }
}

function remember(choice: string | null): void {
  try {
    if (choice) localStorage.setItem(store, choice);
    else localStorage.removeItem(store);
  } catch {
    // see remembered
  }
}

const before = remembered();
if (before === "light" || before === "dark") root.dataset.theme = before;

// The button of class theme switches the page. A choice that equals the system's
// setting is not stored, so that the page follows the system again.
document.addEventListener("DOMContentLoaded", () => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  for (const button of document.querySelectorAll<HTMLButtonElement>("button.theme")) {
    const show = () => button.setAttribute("aria-pressed", String(dark()));
    button.hidden = false;
    button.onclick = () => {
      const wanted = dark() ? "light" : "dark";
      const same = wanted === (system.matches ? "dark" : "light");
      if (same) delete root.dataset.theme;
      else root.dataset.theme = wanted;
      remember(same ? null : wanted);
      show();
      root.dispatchEvent(new Event("themechange"));
    };
    system.addEventListener("change", () => {
      show();
      root.dispatchEvent(new Event("themechange"));
    });
    show();
  }
});
