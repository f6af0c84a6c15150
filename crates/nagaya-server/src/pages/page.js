"use strict";

// Swagger UI knows dark by a class; the system's wish decides, now and when it changes.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  defaultModelsExpandDepth: 0,
  // Nothing is sent to anybody but this server.
  validatorUrl: null,
  queryConfigEnabled: false,
});
