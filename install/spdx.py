"""An SPDX document of what the library is made of: itself and the libraries that it is built on.

usage: spdx.py OUTPUT VERSION NAME=VERSION..."""
import datetime
import hashlib
import json
import os
import sys

output, version, *libraries = sys.argv[1:]
when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)


def package(name, release, license_name):
    return {"SPDXID": "SPDXRef-" + name, "name": name, "versionInfo": release, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": license_name, "licenseDeclared": license_name,
            "copyrightText": "NOASSERTION"}


packages = [package("lockstep", version, "Apache-2.0")]
packages += [package(name, release, "NOASSERTION") for name, release in (one.split("=", 1) for one in libraries)]
digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "lockstep-" + version,
            "documentNamespace": f"https://spdx.org/spdxdocs/lockstep-{version}-{digest[:32]}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: lockstep-build"]},
            "packages": packages,
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-lockstep"}]
            + [{"spdxElementId": "SPDXRef-lockstep", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": one["SPDXID"]} for one in packages[1:]]}
with open(output, "w", encoding="utf-8") as file:
    json.dump(document, file, indent=1)
    file.write("\n")
