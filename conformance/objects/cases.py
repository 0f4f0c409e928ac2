"""The objects whose verdicts are compared: base objects that every server accepts, and changes to them.

A case is (name, path of the resource, steps); a step is a method and an object. All objects are written for this suite.
"""

import copy

GATEWAY = "gateway.networking.k8s.io/v1"
FILTERS = {
    "RequestHeaderModifier": ("requestHeaderModifier", {"set": [{"name": "x-a", "value": "1"}]}),
    "ResponseHeaderModifier": ("responseHeaderModifier", {"remove": ["x-b"]}),
    "RequestMirror": ("requestMirror", {"backendRef": {"name": "mirror", "port": 80}}),
    "RequestRedirect": ("requestRedirect", {"hostname": "example.com"}),
    "URLRewrite": ("urlRewrite", {"hostname": "example.com"}),
    "ExtensionRef": ("extensionRef", {"group": "example.com", "kind": "Thing", "name": "thing"}),
    "CORS": ("cors", {"allowOrigins": ["https://example.com"]}),
}
REMOVED = object()


def path_of(group_version, plural, namespaced=True):
    return f"/apis/{group_version}/" + (f"namespaces/default/{plural}" if namespaced else plural)


def with_changes(base, changes):
    """Returns a copy of `base` with values set at dotted paths; numbers are positions in lists."""
    result = copy.deepcopy(base)
    for dotted, value in changes.items():
        *parents, last = [int(part) if part.isdigit() else part for part in dotted.split(".")]
        at = result
        for part in parents:
            if isinstance(at, dict):
                at = at.setdefault(part, {})
            else:
                at = at[part]
        if value is REMOVED:
            at.pop(last, None)
        elif isinstance(at, list) and last == len(at):
            at.append(copy.deepcopy(value))
        else:
            at[last] = copy.deepcopy(value)
    return result


class Cases:
    def __init__(self):
        self.all = []

    def family(self, prefix, group_version, kind, plural, spec, namespaced=True):
        """Returns functions that add cases of one kind: a creation, and an update of the accepted base."""
        path = path_of(group_version, plural, namespaced)
        base = {"apiVersion": group_version, "kind": kind, "metadata": {"name": "sample"}, "spec": spec}

        def create(name, **changes):
            dotted = {key.replace("__", "."): value for key, value in changes.pop("at", {}).items()}
            self.all.append((f"{prefix}: {name}", path, [("POST", with_changes(base, dotted))]))

        def update(name, at, before=None):
            old = with_changes(base, before or {})
            self.all.append((f"{prefix}: {name}", path, [("POST", old), ("PUT", with_changes(old, at))]))

        create("accepted base")
        return create, update


def filter_of(kind, **more):
    field, value = FILTERS[kind]
    return {"type": kind, field: value, **more}


def parent_references(create):
    parent = {"name": "gateway"}
    create("one parent twice", at={"spec.parentRefs": [parent, parent]})
    create("one parent, one section missing", at={"spec.parentRefs": [parent, {**parent, "sectionName": "a"}]})
    create("one parent, sections differ", at={"spec.parentRefs": [{**parent, "sectionName": "a"}, {**parent, "sectionName": "b"}]})
    create("one parent, sections equal", at={"spec.parentRefs": [{**parent, "sectionName": "a"}, {**parent, "sectionName": "a"}]})
    create("parents of two namespaces", at={"spec.parentRefs": [{**parent, "namespace": "a"}, {**parent, "namespace": "b"}]})
    create("one namespace twice", at={"spec.parentRefs": [{**parent, "namespace": "a"}, {**parent, "namespace": "a"}]})
    create("parents of two kinds", at={"spec.parentRefs": [parent, {**parent, "kind": "ListenerSet"}]})
    create("parent without name", at={"spec.parentRefs": [{"kind": "Gateway"}]})
    create("parent port too large", at={"spec.parentRefs": [{**parent, "port": 70000}]})


def service_references(create, prefix="spec.rules.0.backendRefs"):
    create("service without port", at={prefix: [{"name": "web"}]})
    create("other kind without port", at={prefix: [{"name": "web", "kind": "Bucket", "group": "example.com"}]})
    create("core kind without port", at={prefix: [{"name": "web", "kind": "ConfigMap"}]})
    create("second service without port", at={prefix: [{"name": "web", "port": 80}, {"name": "api"}]})
    create("port zero", at={prefix: [{"name": "web", "port": 0}]})


def http_routes(cases):
    create, update = cases.family("HTTPRoute", GATEWAY, "HTTPRoute", "httproutes", {
        "parentRefs": [{"name": "gateway"}],
        "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": [{"name": "web", "port": 80}]}]})
    parent_references(create)
    service_references(create)
    for kind in FILTERS:
        lone = {"spec.rules.0.backendRefs": REMOVED} if kind == "RequestRedirect" else {}
        create(f"filter {kind}", at={**lone, "spec.rules.0.filters": [filter_of(kind)]})
        create(f"filter {kind} without its field", at={**lone, "spec.rules.0.filters": [{"type": kind}]})
        other = "URLRewrite" if kind != "URLRewrite" else "RequestMirror"
        field, value = FILTERS[kind]
        create(f"filter {other} with the field of {kind}", at={**lone, "spec.rules.0.filters": [{**filter_of(other), field: value}]})
        create(f"filter {kind} twice", at={**lone, "spec.rules.0.filters": [filter_of(kind), filter_of(kind)]})
        create(f"backend filter {kind}", at={"spec.rules.0.backendRefs.0.filters": [filter_of(kind)]})
        create(f"backend filter {kind} twice", at={"spec.rules.0.backendRefs.0.filters": [filter_of(kind), filter_of(kind)]})
        create(f"backend filter {kind} without its field", at={"spec.rules.0.backendRefs.0.filters": [{"type": kind}]})
    create("filter of unknown type", at={"spec.rules.0.filters": [{"type": "Unknown"}]})
    create("redirect with rewrite", at={
        "spec.rules.0.backendRefs": REMOVED, "spec.rules.0.filters": [filter_of("RequestRedirect"), filter_of("URLRewrite")]})
    create("redirect with backends", at={"spec.rules.0.filters": [filter_of("RequestRedirect")]})
    for kind, field in (("RequestRedirect", "requestRedirect"), ("URLRewrite", "urlRewrite")):
        lone = {"spec.rules.0.backendRefs": REMOVED} if kind == "RequestRedirect" else {}

        def rewritten(name, path, more=None):
            create(f"{kind} {name}", at={**lone, "spec.rules.0.filters": [{"type": kind, field: {"path": path}}], **(more or {})})

        rewritten("full path", {"type": "ReplaceFullPath", "replaceFullPath": "/new"})
        rewritten("prefix", {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"})
        rewritten("prefix with an exact match", {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"},
                  {"spec.rules.0.matches.0.path.type": "Exact"})
        rewritten("prefix with two matches", {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"},
                  {"spec.rules.0.matches.1": {"path": {"type": "PathPrefix", "value": "/b"}}})
        rewritten("full path missing", {"type": "ReplaceFullPath"})
        rewritten("prefix missing", {"type": "ReplacePrefixMatch"})
        rewritten("type of the other", {"type": "ReplaceFullPath", "replacePrefixMatch": "/new"})
        rewritten("both", {"type": "ReplaceFullPath", "replaceFullPath": "/a", "replacePrefixMatch": "/new"})
        rewritten("unknown type", {"type": "Shorten"})
    for index, value in enumerate(["relative", "/a//b", "/a/./b", "/a/../b", "/a%2fb", "/a%2Fb", "/a#b", "/a/..", "/a/.", "/a b", "/ä",
                                   "/%zz", "/ok-._~!$&'()*+,;=:@%20", ""]):
        for kind in ("Exact", "PathPrefix", "RegularExpression"):
            create(f"path {index} as {kind}", at={"spec.rules.0.matches.0.path": {"type": kind, "value": value}})
    create("path of unknown type", at={"spec.rules.0.matches.0.path": {"type": "Glob", "value": "/"}})
    create("path too long", at={"spec.rules.0.matches.0.path.value": "/" + "a" * 1100})
    for name, mirror in {
        "percent": {"percent": 50}, "fraction": {"fraction": {"numerator": 1, "denominator": 2}},
        "percent and fraction": {"percent": 50, "fraction": {"numerator": 1}},
        "fraction above one": {"fraction": {"numerator": 3, "denominator": 2}},
        "fraction of default": {"fraction": {"numerator": 101}}, "percent above 100": {"percent": 101},
    }.items():
        create(f"mirror {name}", at={"spec.rules.0.filters": [
            {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "m", "port": 80}, **mirror}}]})
    create("mirror without port", at={"spec.rules.0.filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "m"}}}]})
    for field, some in (("allowOrigins", "https://a.example"), ("allowMethods", "GET"), ("allowHeaders", "x-a")):
        create(f"cors {field} any", at={"spec.rules.0.filters": [{"type": "CORS", "cors": {field: ["*"]}}]})
        create(f"cors {field} any and one", at={"spec.rules.0.filters": [{"type": "CORS", "cors": {field: ["*", some]}}]})
    for name, timeouts in {
        "equal": ("10s", "10s"), "shorter backend": ("1m", "10s"), "longer backend": ("10s", "1m"), "no limit": ("0s", "1m"),
        "milliseconds": ("1s", "1500ms"), "bad unit": ("1d", "1s"), "fraction": ("1.5s", "1s"), "hours": ("1h", "59m60s"),
    }.items():
        create(f"timeouts {name}", at={"spec.rules.0.timeouts": {"request": timeouts[0], "backendRequest": timeouts[1]}})
    create("only a backend timeout", at={"spec.rules.0.timeouts": {"backendRequest": "1m"}})
    match = {"path": {"type": "PathPrefix", "value": "/"}}
    create("128 matches", at={"spec.rules": [{"matches": [match] * 64}] * 2})
    create("129 matches", at={"spec.rules": [{"matches": [match] * 64}] * 2 + [{"matches": [match]}]})
    create("17 rules", at={"spec.rules": [{"matches": [match]}] * 17})
    create("bad hostname", at={"spec.hostnames": ["Example.COM"]})
    create("two errors", at={"spec.rules.0.matches.0.path.value": "relative", "spec.rules.0.backendRefs": [{"name": "web"}]})
    create("schema and rule errors", at={"spec.hostnames": ["UPPER"], "spec.rules.0.backendRefs": [{"name": "web"}]})
    update("update to an invalid path", {"spec.rules.0.matches.0.path.value": "relative"})
    update("update of hostnames", {"spec.hostnames": ["a.example.com"]})


def grpc_routes(cases):
    create, _ = cases.family("GRPCRoute", GATEWAY, "GRPCRoute", "grpcroutes", {
        "parentRefs": [{"name": "gateway"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]})
    parent_references(create)
    service_references(create)
    for name, method in {
        "service": {"service": "a.B"}, "method": {"method": "Get"}, "neither": {"type": "Exact"}, "regex": {"type": "RegularExpression", "service": "a.*"},
        "bad service": {"service": "a/b"}, "bad method": {"method": "1Get"}, "leading dot": {"service": ".a.b"}, "upper": {"service": "A.B_c"},
        "both bad": {"service": "a b", "method": "a b"},
    }.items():
        create(f"match {name}", at={"spec.rules.0.matches": [{"method": method}]})
    for kind in ("RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "ExtensionRef"):
        create(f"filter {kind} without its field", at={"spec.rules.0.filters": [{"type": kind}]})
        create(f"filter {kind} twice", at={"spec.rules.0.filters": [filter_of(kind), filter_of(kind)]})
    create("129 matches", at={"spec.rules": [{"matches": [{"method": {"method": "A"}}] * 64}] * 2 + [{"matches": [{"method": {"method": "A"}}]}]})


def listener_rules(create):
    tls = {"certificateRefs": [{"name": "cert"}]}

    def listeners(name, *items):
        create(name, at={"spec.listeners": [{"name": f"l{index}", **item} for index, item in enumerate(items)]})

    for protocol in ("HTTP", "TCP", "UDP"):
        listeners(f"tls with {protocol}", {"protocol": protocol, "port": 80, "tls": tls})
    for protocol in ("TCP", "UDP", "TLS"):
        more = {"tls": {"mode": "Passthrough"}} if protocol == "TLS" else {}
        listeners(f"hostname with {protocol}", {"protocol": protocol, "port": 80, "hostname": "a.example.com", **more})
    listeners("HTTPS terminate", {"protocol": "HTTPS", "port": 443, "tls": tls})
    listeners("HTTPS passthrough", {"protocol": "HTTPS", "port": 443, "tls": {"mode": "Passthrough"}})
    listeners("HTTPS without certificate", {"protocol": "HTTPS", "port": 443, "tls": {"mode": "Terminate"}})
    listeners("HTTPS with options", {"protocol": "HTTPS", "port": 443, "tls": {"mode": "Terminate", "options": {"example.com/a": "b"}}})
    listeners("HTTPS without tls", {"protocol": "HTTPS", "port": 443})
    listeners("TLS without tls", {"protocol": "TLS", "port": 443})
    listeners("TLS default mode", {"protocol": "TLS", "port": 443, "tls": tls})
    listeners("two on one port", {"protocol": "HTTP", "port": 80}, {"protocol": "HTTP", "port": 80})
    listeners("two hostnames", {"protocol": "HTTP", "port": 80, "hostname": "a.example.com"}, {"protocol": "HTTP", "port": 80, "hostname": "b.example.com"})
    listeners("one hostname twice", {"protocol": "HTTP", "port": 80, "hostname": "a.example.com"}, {"protocol": "HTTP", "port": 80, "hostname": "a.example.com"})
    listeners("hostname and none", {"protocol": "HTTP", "port": 80, "hostname": "a.example.com"}, {"protocol": "HTTP", "port": 80})
    create("one name twice", at={"spec.listeners": [{"name": "a", "protocol": "HTTP", "port": 80}, {"name": "a", "protocol": "HTTP", "port": 81}]})
    create("port zero", at={"spec.listeners": [{"name": "a", "protocol": "HTTP", "port": 0}]})
    create("bad protocol", at={"spec.listeners": [{"name": "a", "protocol": "h t t p", "port": 80}]})
    create("three errors", at={"spec.listeners": [
        {"name": "a", "protocol": "TCP", "port": 80, "hostname": "a.example.com", "tls": tls}, {"name": "a", "protocol": "TLS", "port": 81}]})


def gateways(cases):
    create, update = cases.family("Gateway", GATEWAY, "Gateway", "gateways", {
        "gatewayClassName": "sample", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]})
    listener_rules(create)
    for name, addresses in {
        "one": [("IPAddress", "192.0.2.1")], "equal": [("IPAddress", "192.0.2.1")] * 2, "different": [("IPAddress", "192.0.2.1"), ("IPAddress", "192.0.2.2")],
        "bad IP": [("IPAddress", "192.0.2")], "IPv6": [("IPAddress", "2001:db8::1")], "hostname": [("Hostname", "a.example.com")],
        "equal hostnames": [("Hostname", "a.example.com")] * 2, "bad hostname": [("Hostname", "A_b")], "wildcard": [("Hostname", "*.example.com")],
        "own type": [("example.com/type", "x")],
    }.items():
        create(f"addresses {name}", at={"spec.addresses": [{"type": kind, "value": value} for kind, value in addresses]})
    create("addresses without value", at={"spec.addresses": [{"type": "IPAddress"}, {"type": "IPAddress"}]})
    for field in ("labels", "annotations"):
        for name, key in {"plain": "a", "prefixed": "example.com/a", "bad": "a b", "long name": "a" * 64, "long prefix": "a" * 253 + "/a", "empty name": "example.com/"}.items():
            create(f"infrastructure {field} {name}", at={f"spec.infrastructure.{field}": {key: "v"}})
    port = {"port": 443, "tls": {"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}
    create("frontend tls", at={"spec.tls": {"frontend": {"default": {"validation": port["tls"]["validation"]}, "perPort": [port]}}})
    create("frontend port twice", at={"spec.tls": {"frontend": {"default": {"validation": port["tls"]["validation"]}, "perPort": [port, port]}}})
    update("update to two listeners of one name", {"spec.listeners.1": {"name": "http", "protocol": "HTTP", "port": 81}})


def listener_sets(cases):
    create, _ = cases.family("ListenerSet", GATEWAY, "ListenerSet", "listenersets", {
        "parentRef": {"name": "gateway"}, "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]})
    listener_rules(create)


def other_gateway_kinds(cases):
    for kind in ("TCPRoute", "UDPRoute", "TLSRoute"):
        names = {"hostnames": ["a.example.com"]} if kind == "TLSRoute" else {}
        create, _ = cases.family(kind, GATEWAY, kind, kind.lower() + "s", {
            **names, "parentRefs": [{"name": "gateway"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]})
        parent_references(create)
        service_references(create)
        if kind == "TLSRoute":
            for index, host in enumerate(["192.0.2.1", "2001:db8::1", "*.example.com", "a.*.example.com", "*", "A.example.com", "a_b", "-a.example.com", "a." * 120 + "com"]):
                create(f"hostname {index}", at={"spec.hostnames": [host]})
            create("no hostname", at={"spec.hostnames": []})
    create, update = cases.family("GatewayClass", GATEWAY, "GatewayClass", "gatewayclasses", {"controllerName": "example.com/controller"}, namespaced=False)
    create("controller without path", at={"spec.controllerName": "controller"})
    update("controller changed", {"spec.controllerName": "example.com/other"})
    update("description changed", {"spec.description": "text"})
    target = {"group": "", "kind": "Service", "name": "web"}
    create, _ = cases.family("BackendTLSPolicy", GATEWAY, "BackendTLSPolicy", "backendtlspolicies", {
        "targetRefs": [target], "validation": {"hostname": "a.example.com", "wellKnownCACertificates": "System"}})
    authority = [{"group": "", "kind": "ConfigMap", "name": "ca"}]
    create("certificates", at={"spec.validation": {"hostname": "a.example.com", "caCertificateRefs": authority}})
    create("both authorities", at={"spec.validation.caCertificateRefs": authority})
    create("no authority", at={"spec.validation": {"hostname": "a.example.com"}})
    create("empty authorities", at={"spec.validation": {"hostname": "a.example.com", "caCertificateRefs": []}})
    create("target twice", at={"spec.targetRefs": [target, target]})
    create("target once with section", at={"spec.targetRefs": [target, {**target, "sectionName": "a"}]})
    create("two sections", at={"spec.targetRefs": [{**target, "sectionName": "a"}, {**target, "sectionName": "b"}]})
    create("one section twice", at={"spec.targetRefs": [{**target, "sectionName": "a"}, {**target, "sectionName": "a"}]})
    for name, subject in {
        "hostname": {"type": "Hostname", "hostname": "a.example.com"}, "hostname missing": {"type": "Hostname"}, "URI": {"type": "URI", "uri": "spiffe://a/b"},
        "URI missing": {"type": "URI"}, "hostname as URI": {"type": "URI", "hostname": "a.example.com"}, "URI as hostname": {"type": "Hostname", "uri": "spiffe://a/b"},
        "both": {"type": "Hostname", "hostname": "a.example.com", "uri": "spiffe://a/b"},
    }.items():
        create(f"subject {name}", at={"spec.validation.subjectAltNames": [subject]})


def issuers(cases):
    tpp = {"url": "https://tpp.example.com", "credentialsRef": {"name": "secret"}}
    cloud = {"apiTokenSecretRef": {"name": "secret", "key": "key"}}
    for kind, plural, namespaced in (("Issuer", "issuers", True), ("ClusterIssuer", "clusterissuers", False)):
        create, update = cases.family(kind, "cert-manager.io/v1", kind, plural, {"selfSigned": {}}, namespaced)
        for name, venafi in {"tpp": {"tpp": tpp}, "cloud": {"cloud": cloud}, "both": {"tpp": tpp, "cloud": cloud}, "neither": {},
                             "zone only": {"zone": "a"}}.items():
            create(f"venafi {name}", at={"spec": {"venafi": {"zone": "zone", **venafi}}})
        update("update to venafi without server", {"spec": {"venafi": {"zone": "zone"}}})
    create, _ = cases.family("Certificate", "cert-manager.io/v1", "Certificate", "certificates", {
        "secretName": "tls", "issuerRef": {"name": "issuer"}, "dnsNames": ["a.example.com"]})
    create("no issuer", at={"spec.issuerRef": REMOVED})
    create("no secret", at={"spec.secretName": REMOVED})
    create("unknown usage", at={"spec.usages": ["fly"]})
    create("unknown algorithm", at={"spec.privateKey": {"algorithm": "DSA"}})
    create("bad duration", at={"spec.duration": "soon"})
    create("size is text", at={"spec.privateKey": {"size": "2048"}})


def monitoring(cases):
    group = "monitoring.coreos.com/"
    for kind, version, plural, spec in (("Prometheus", "v1", "prometheuses", {}), ("PrometheusAgent", "v1alpha1", "prometheusagents", {}),
                                        ("Alertmanager", "v1", "alertmanagers", {}), ("ThanosRuler", "v1", "thanosrulers", {})):
        create, update = cases.family(kind, group + version, kind, plural, spec)
        create("rolling update", at={"spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}})
        create("rolling update on delete", at={"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}})
        create("on delete", at={"spec.updateStrategy": {"type": "OnDelete"}})
        create("unknown strategy", at={"spec.updateStrategy": {"type": "Never"}})
        update("update to a wrong strategy", {"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}})
        if kind != "Alertmanager":
            write = {"url": "https://example.com/write"}
            create("external id with role", at={"spec.remoteWrite": [{**write, "sigv4": {"externalId": "a", "roleArn": "b"}}]})
            create("external id without role", at={"spec.remoteWrite": [{**write, "sigv4": {"externalId": "a"}}]})
            create("second write without role", at={"spec.remoteWrite": [write, {**write, "sigv4": {"externalId": "a"}}]})
            create("write without url", at={"spec.remoteWrite": [{}]})
        if kind in ("Prometheus", "PrometheusAgent"):
            topology = {"mode": "Topology", "topology": {"label": "zone", "values": ["a", "b"]}}
            create("topology with too few shards", at={"spec.shardingStrategy": topology})
            create("topology with enough shards", at={"spec.shardingStrategy": topology, "spec.shards": 2})
            create("topology in another mode", at={"spec.shardingStrategy": {"mode": "Classic", "topology": {"values": ["a"]}}})
            create("topology without mode", at={"spec.shardingStrategy": {"topology": {"values": ["a"]}}})
            create("classic", at={"spec.shardingStrategy": {"mode": "Classic"}})
    create, update = cases.family("PrometheusAgent on nodes", group + "v1alpha1", "PrometheusAgent", "prometheusagents", {"mode": "DaemonSet"})
    for field, value in {
        "replicas": 1, "storage": {}, "shards": 2, "persistentVolumeClaimRetentionPolicy": {}, "scrapeConfigSelector": {}, "probeSelector": {},
        "scrapeConfigNamespaceSelector": {}, "probeNamespaceSelector": {}, "serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {},
        "additionalScrapeConfigs": {"key": "a", "name": "b"}, "shardingStrategy": {"mode": "Classic"},
    }.items():
        create(f"with {field}", at={f"spec.{field}": value})
    create("one shard", at={"spec.shards": 1})
    create("many errors", at={"spec.replicas": 1, "spec.storage": {}, "spec.shards": 3, "spec.probeSelector": {}})
    update("update to replicas", {"spec.replicas": 2})
    create, _ = cases.family("ScrapeConfig", group + "v1alpha1", "ScrapeConfig", "scrapeconfigs", {})
    methods = {"basicAuth": {}, "authorization": {}, "oauth2": {
        "clientId": {"secret": {"name": "a", "key": "b"}}, "clientSecret": {"name": "a", "key": "b"}, "tokenUrl": "https://example.com"}}
    for chosen in (["basicAuth"], ["oauth2"], ["basicAuth", "authorization"], ["authorization", "oauth2"], ["basicAuth", "authorization", "oauth2"]):
        create("with " + " and ".join(chosen), at={f"spec.{name}": methods[name] for name in chosen})
    create, _ = cases.family("AlertmanagerConfig", group + "v1alpha1", "AlertmanagerConfig", "alertmanagerconfigs", {
        "route": {"receiver": "a"}, "receivers": [{"name": "a"}]})
    for name, signing in {"with role": {"externalId": "a", "roleArn": "b"}, "without role": {"externalId": "a"}, "role only": {"roleArn": "b"}}.items():
        create(f"topic {name}", at={"spec.receivers.0.snsConfigs": [{"topicARN": "t", "sigv4": signing}]})


def every_case():
    cases = Cases()
    for add in (http_routes, grpc_routes, gateways, listener_sets, other_gateway_kinds, issuers, monitoring):
        add(cases)
    names = [name for name, _, _ in cases.all]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    return cases.all
