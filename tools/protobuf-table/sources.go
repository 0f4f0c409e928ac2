package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// A tree is the source of one minor version: its proto files and the Go packages they were generated from.
type tree struct {
	protos map[string]*protoFile // by proto package
	source map[string]*goPackage // by import path
	dirs   map[string]string     // folders by import path of the module
}

type protoFile struct {
	name, goPath string
	messages     map[string][]protoField
}

type protoField struct {
	number           int
	name, kind       string
	repeated, mapped bool
}

// A goPackage is the types and constants of a package; imports are kept by file, as the names are the file's own.
type goPackage struct {
	types  map[string]goType
	strs   map[string]string
	loaded bool
}

type goType struct {
	spec    *ast.TypeSpec
	imports map[string]string
}

func newTree() *tree {
	return &tree{map[string]*protoFile{}, map[string]*goPackage{}, map[string]string{}}
}

func (t *tree) add(module, folder string) error {
	t.dirs[module] = folder
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "generated.proto" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := readProto(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		t.protos[file.name] = file
		return nil
	})
}

var (
	packageLine = regexp.MustCompile(`^package ([\w.]+);`)
	goPathLine  = regexp.MustCompile(`^option go_package = "(.+)";`)
	messageLine = regexp.MustCompile(`^message (\w+) \{`)
	fieldLine   = regexp.MustCompile(`^  (optional|repeated) \.?([\w.]+) (\w+) = (\d+);`)
	noise       = regexp.MustCompile(`^\s*//|^(syntax|import|option) |^\s*$|^}$`)
	licence     = regexp.MustCompile(`(?s)/\*.*?\*/`)
	mapLine     = regexp.MustCompile(`^  map<string, \.?([\w.]+)> (\w+) = (\d+);`)
)

// readProto reads the format of the Kubernetes generator: a field per line, no nesting.
func readProto(text string) (*protoFile, error) {
	file := &protoFile{messages: map[string][]protoField{}}
	message := ""
	for _, line := range strings.Split(licence.ReplaceAllString(text, ""), "\n") {
		if match := packageLine.FindStringSubmatch(line); match != nil {
			file.name = match[1]
		} else if match := goPathLine.FindStringSubmatch(line); match != nil {
			file.goPath = match[1]
		} else if match := messageLine.FindStringSubmatch(line); match != nil {
			message = match[1]
			file.messages[message] = nil
		} else if match := fieldLine.FindStringSubmatch(line); match != nil {
			number, _ := strconv.Atoi(match[4])
			field := protoField{number: number, name: match[3], kind: match[2], repeated: match[1] == "repeated"}
			file.messages[message] = append(file.messages[message], field)
		} else if match := mapLine.FindStringSubmatch(line); match != nil {
			number, _ := strconv.Atoi(match[3])
			field := protoField{number: number, name: match[2], kind: match[1], mapped: true}
			file.messages[message] = append(file.messages[message], field)
		} else if !noise.MatchString(line) {
			return nil, fmt.Errorf("cannot understand %q", line)
		}
	}
	for _, fields := range file.messages {
		for at, field := range fields {
			if scalars[field.kind] == "" && !strings.Contains(field.kind, ".") {
				fields[at].kind = file.name + "." + field.kind
			}
		}
		sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	}
	return file, nil
}

// load parses the Go files of a package, once.
func (t *tree) load(path string) (*goPackage, error) {
	if loaded := t.source[path]; loaded != nil {
		return loaded, nil
	}
	folder := ""
	for module, dir := range t.dirs {
		if path == module || strings.HasPrefix(path, module+"/") {
			folder = filepath.Join(dir, strings.TrimPrefix(path, module))
		}
	}
	if folder == "" {
		return nil, fmt.Errorf("no module has the package %s", path)
	}
	result := &goPackage{types: map[string]goType{}, strs: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.Base(name), "generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		result.addFile(file)
	}
	t.source[path] = result
	return result, nil
}

func (p *goPackage) addFile(file *ast.File) {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = path
	}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				p.types[spec.Name.Name] = goType{spec, imports}
			case *ast.ValueSpec:
				for at, name := range spec.Names {
					if at < len(spec.Values) {
						if literal, ok := spec.Values[at].(*ast.BasicLit); ok && literal.Kind == token.STRING {
							p.strs[name.Name], _ = strconv.Unquote(literal.Value)
						}
					}
				}
			}
		}
	}
}

// resolve follows aliases and types defined as others to the underlying type.
func (t *tree) resolve(path, name string) (ast.Expr, string, error) {
	for range 8 {
		source, err := t.load(path)
		if err != nil {
			return nil, "", err
		}
		found, ok := source.types[name]
		if !ok {
			return nil, "", fmt.Errorf("%s has no type %s", path, name)
		}
		switch expression := found.spec.Type.(type) {
		case *ast.SelectorExpr:
			path, name = found.imports[expression.X.(*ast.Ident).Name], expression.Sel.Name
		case *ast.Ident:
			if _, ok := source.types[expression.Name]; !ok {
				return expression, path, nil
			}
			name = expression.Name
		default:
			return expression, path, nil
		}
	}
	return nil, "", fmt.Errorf("%s.%s is defined as itself", path, name)
}

// A goField is the Go declaration of a field.
type goField struct {
	json                string
	omitEmpty, omitZero bool
	pointer, inline     bool
}

// goFields returns the fields of a struct by their protobuf number, those without one by their name in proto files, and
// whether the struct has a TypeMeta, which is what makes it a kind.
func goFields(structure *ast.StructType) (map[int]goField, map[string]goField, bool) {
	numbered, named, kind := map[int]goField{}, map[string]goField{}, false
	for _, field := range structure.Fields.List {
		expression := field.Type
		var result goField
		if star, ok := expression.(*ast.StarExpr); ok {
			expression, result.pointer = star.X, true
		}
		name := typeName(expression)
		if len(field.Names) > 0 {
			name = field.Names[0].Name
		}
		tag := reflect.StructTag("")
		if field.Tag != nil {
			text, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(text)
		}
		jsonTag := strings.Split(tag.Get("json"), ",")
		result.json = jsonTag[0]
		for _, option := range jsonTag[1:] {
			result.omitEmpty = result.omitEmpty || option == "omitempty"
			result.omitZero = result.omitZero || option == "omitzero"
		}
		protobuf := strings.Split(tag.Get("protobuf"), ",")
		if len(field.Names) == 0 && name == "TypeMeta" {
			kind = true
			continue
		}
		result.inline = len(field.Names) == 0 && result.json == ""
		if len(protobuf) > 1 {
			if number, err := strconv.Atoi(protobuf[1]); err == nil {
				numbered[number] = result
				continue
			}
		}
		named[strings.ToLower(name[:1])+name[1:]] = result
	}
	return numbered, named, kind
}

func typeName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.SelectorExpr:
		return expression.Sel.Name
	default:
		return ""
	}
}
