"use strict";

// Swagger UI has a class for dark mode; it follows the setting of the system.
const dark = matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

const ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  defaultModelsExpandDepth: 0,
  // Requests go to this server only.
  validatorUrl: null,
  queryConfigEnabled: false,
});

// In development the server has an endpoint that signs in with its local issuer; elsewhere it answers 404.
const element = (id) => document.getElementById(id);
const show = (roles) => {
  for (const role of [...roles, ""]) element("role").add(new Option(role || "(none)", role));
  element("submit").addEventListener("click", async () => {
    const body = JSON.stringify({ tenant: element("tenant").value, role: element("role").value });
    const answer = await fetch("docs/sign-in", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const { data, detail } = await answer.json();
    if (data) ui.preauthorizeApiKey("token", data.token);
    element("result").textContent = data ? "Signed in for 12 hours." : detail;
  });
  element("help").hidden = true;
  element("sign-in").hidden = false;
};
fetch("docs/sign-in").then((answer) => (answer.ok ? answer.json() : null)).then((found) => found && show(found.data.roles));
