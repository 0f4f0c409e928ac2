package main

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"sort"
	"strings"
)

const meta = "k8s.io.apimachinery.pkg.apis.meta.v1"

// Well-known messages, whose JSON is not an object of their fields, and their letter in the table.
var leaves = map[string]string{
	"k8s.io.apimachinery.pkg.api.resource.Quantity":      "q",
	"k8s.io.apimachinery.pkg.api.resource.QuantityValue": "q",
	"k8s.io.apimachinery.pkg.util.intstr.IntOrString":    "x",
	meta + ".Time":      "t",
	meta + ".MicroTime": "u",
	meta + ".Duration":  "n",
	meta + ".FieldsV1":  "j",
	"k8s.io.apimachinery.pkg.runtime.RawExtension": "j",
}

// The same for messages of every version of apiextensions.
var schemaLeaves = map[string]string{
	"JSON": "j", "JSONSchemaPropsOrBool": "o", "JSONSchemaPropsOrArray": "a", "JSONSchemaPropsOrStringArray": "r",
}

var scalars = map[string]string{"string": "s", "bytes": "y", "bool": "b", "int32": "i", "int64": "l", "double": "d"}

// Packages whose messages are not part of requests and responses.
var skipped = []string{"k8s.io.apimachinery.pkg.runtime", "k8s.io.apimachinery.pkg.runtime.schema",
	"k8s.io.apimachinery.pkg.api.resource", "k8s.io.apimachinery.pkg.util.intstr",
	"k8s.io.apimachinery.pkg.apis.testapigroup.v1"}

type messages map[string]*message

type pkg struct {
	name, apiVersion string
	messages         messages
}

type message struct {
	root   bool
	fields map[int]field
}

// A field as the table has it. The type is a letter, or the full name of a message.
type field struct {
	name, card, kind string
	inline, elide    bool
}

// join merges the proto files and the Go types.
func (t *tree) join() (map[string]*pkg, error) {
	result := map[string]*pkg{}
	for name, file := range t.protos {
		if slices.Contains(skipped, name) || len(file.messages) == 0 {
			continue
		}
		source, err := t.load(file.goPath)
		if err != nil {
			return nil, err
		}
		group, ok := source.strs["GroupName"]
		if !ok {
			for _, parent := range []string{path.Dir(file.goPath)} {
				if above, err := t.load(parent); err == nil {
					group, ok = above.strs["GroupName"], true
				}
			}
		}
		if !ok {
			return nil, fmt.Errorf("%s has no GroupName", file.goPath)
		}
		apiVersion := strings.TrimPrefix(group+"/"+path.Base(file.goPath), "/")
		found := &pkg{name, apiVersion, messages{}}
		for name, fields := range file.messages {
			full := file.name + "." + name
			if kind, _ := t.leaf(full); kind != "" {
				continue
			}
			made, err := t.message(file.goPath, name, fields)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", full, err)
			}
			found.messages[name] = made
		}
		result[name] = found
	}
	return result, nil
}

func (t *tree) message(goPath, name string, fields []protoField) (*message, error) {
	expression, _, err := t.resolve(goPath, name)
	if err != nil {
		return nil, err
	}
	structure, ok := expression.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("the Go type is no struct")
	}
	numbered, named, root := goFields(structure)
	// An event of a watch is sent as a whole without being a kind.
	result := &message{root: root || name == "WatchEvent", fields: map[int]field{}}
	for _, proto := range fields {
		source, ok := numbered[proto.number]
		if !ok {
			if source, ok = named[proto.name]; !ok {
				return nil, fmt.Errorf("the Go type has no field for %s", proto.name)
			}
		}
		if source.json == "-" {
			continue
		}
		made := field{name: source.json, inline: source.inline}
		if made.name == "" && !made.inline {
			return nil, fmt.Errorf("%s has no name in JSON", proto.name)
		}
		if made.kind = scalars[proto.kind]; made.kind == "" {
			if made.kind, err = t.leaf(proto.kind); err != nil {
				return nil, err
			}
			if made.kind == "" {
				made.kind = proto.kind
			}
		}
		switch {
		case proto.mapped:
			made.card = "%"
		case proto.repeated:
			made.card = "+"
		case proto.kind == meta+".FieldsV1" || source.omitZero:
			made.elide = true
		case !source.pointer && source.omitEmpty:
			// Go keeps structs whatever they hold.
			made.elide = strings.Contains("sybildw", made.kind)
		}
		if source.omitZero && made.kind != "t" {
			return nil, fmt.Errorf("%s has omitzero and is no time: readers do not know what to do", proto.name)
		}
		result.fields[proto.number] = made
	}
	return result, nil
}

// leaf returns the letter of a well-known message, or nothing.
func (t *tree) leaf(full string) (string, error) {
	if letter := leaves[full]; letter != "" {
		return letter, nil
	}
	dot := strings.LastIndex(full, ".")
	file := t.protos[full[:dot]]
	if file == nil {
		return "", fmt.Errorf("no message is called %s", full)
	}
	name := full[dot+1:]
	if strings.Contains(full, ".apiextensions.") && schemaLeaves[name] != "" {
		return schemaLeaves[name], nil
	}
	fields, ok := file.messages[name]
	if !ok {
		return "", fmt.Errorf("no message is called %s", full)
	}
	// A message that Go has as a slice is a list in JSON. All of them hold strings.
	expression, _, err := t.resolve(file.goPath, name)
	if err != nil {
		return "", err
	}
	if _, ok := expression.(*ast.ArrayType); ok {
		if len(fields) != 1 || fields[0].number != 1 || fields[0].kind != "string" || !fields[0].repeated {
			return "", fmt.Errorf("%s is a slice of something new", full)
		}
		return "w", nil
	}
	return "", nil
}

// A table is the union over versions.
type table struct{ packages map[string]*pkg }

func newTable() *table { return &table{map[string]*pkg{}} }

func (t *table) merge(version string, packages map[string]*pkg) error {
	for name, added := range packages {
		have := t.packages[name]
		if have == nil {
			t.packages[name] = added
			continue
		}
		if have.apiVersion != added.apiVersion {
			return fmt.Errorf("%s: %s is %s, was %s", version, name, added.apiVersion, have.apiVersion)
		}
		for name, added := range added.messages {
			old := have.messages[name]
			if old == nil {
				have.messages[name] = added
				continue
			}
			old.root = old.root || added.root
			for number, added := range added.fields {
				if was, ok := old.fields[number]; ok && was != added {
					return fmt.Errorf("%s: field %d of %s.%s is %+v, was %+v", version, number, have.name, name, added, was)
				}
				old.fields[number] = added
			}
		}
	}
	return nil
}

const header = `# The protobuf messages of the Kubernetes API, versions %s. Written by tools/protobuf-table: change that.
#
# /PACKAGE API-VERSION     starts a package; others refer to its messages by @ and its place in the file, from 0
# MESSAGE FIELD...         a message, with ! in front of it if it is a kind
# MESSAGE *                the list of a kind: metadata, items
# MESSAGE =PLACE           like the message of the same name in the package with that place
#
# A field is NUMBER NAME : CARDINALITY ? TYPE without spaces. NUMBER is left out if it is one more than the last. Without a
# NAME the fields of the message appear in the one around it. CARDINALITY is + for a list, %% for a map from strings. The ?
# means that a zero is not shown. TYPE is s string, y bytes, b bool, i int32, l int64, d double, q Quantity,
# x IntOrString, t Time, u MicroTime, n Duration, j a message that holds JSON, w a message that holds strings,
# o a schema or a bool, a a schema or a list of them, r a schema or a list of strings, or a MESSAGE. Without : it is ?s.
`

func (t *table) text() (string, error) {
	names := make([]string, 0, len(t.packages))
	for name := range t.packages {
		names = append(names, name)
	}
	// The most referenced packages have the shortest numbers.
	first := []string{meta, "k8s.io.api.core.v1"}
	sort.Slice(names, func(i, j int) bool {
		a, b := slices.Index(first, names[i]), slices.Index(first, names[j])
		if a != b {
			return a >= 0 && (b < 0 || a < b)
		}
		return names[i] < names[j]
	})
	place := map[string]int{}
	for at, name := range names {
		place[name] = at
	}

	var text strings.Builder
	fmt.Fprintf(&text, header, strings.Join(versions, " and "))
	written := map[string]int{}
	for at, name := range names {
		found := t.packages[name]
		fmt.Fprintf(&text, "/%s %s\n", found.name, found.apiVersion)
		sorted := make([]string, 0, len(found.messages))
		for name := range found.messages {
			sorted = append(sorted, name)
		}
		sort.Strings(sorted)
		for _, name := range sorted {
			made := found.messages[name]
			fields, err := t.fields(found, made, place)
			if err != nil {
				return "", err
			}
			line := name
			if fields != "" {
				line += " " + fields
			}
			if kind, ok := strings.CutSuffix(name, "List"); ok && listOf(fields, kind) {
				line = name + " *"
			} else if have, ok := written[line]; ok && len(fields) > 4 {
				line = fmt.Sprintf("%s =%d", name, have)
			} else {
				written[line] = at
			}
			if made.root {
				text.WriteByte('!')
			}
			text.WriteString(line + "\n")
		}
	}
	return text.String(), nil
}

func listOf(fields, kind string) bool {
	return fields == "metadata:@0ListMeta items:+"+kind || fields == "metadata:ListMeta items:+"+kind
}

func (t *table) fields(in *pkg, of *message, place map[string]int) (string, error) {
	numbers := make([]int, 0, len(of.fields))
	for number := range of.fields {
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	var parts []string
	last := 0
	for _, number := range numbers {
		field := of.fields[number]
		part := ""
		if number != last+1 {
			part = fmt.Sprint(number)
		}
		last = number
		if !field.inline {
			part += field.name
		}
		kind := field.kind
		if dot := strings.LastIndex(kind, "."); dot >= 0 {
			target := t.packages[kind[:dot]]
			if target == nil || target.messages[kind[dot+1:]] == nil {
				return "", fmt.Errorf("%s refers to %s, which is not in the table", in.name, kind)
			}
			if target == in {
				kind = kind[dot+1:]
			} else {
				kind = fmt.Sprintf("@%d%s", place[kind[:dot]], kind[dot+1:])
			}
		}
		elide := ""
		if field.elide {
			elide = "?"
		}
		if kind = field.card + elide + kind; kind != "?s" {
			part += ":" + kind
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " "), nil
}
