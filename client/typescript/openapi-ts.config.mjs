// What @hey-api/openapi-ts makes of the specification: types, operations and a
// client on fetch, without dependencies at run time.
export default {
  input: "../../openapi/openapi.json",
  output: { path: "src/generated", module: { extension: ".js" } },
  logs: { file: false, level: "warn" },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
};
